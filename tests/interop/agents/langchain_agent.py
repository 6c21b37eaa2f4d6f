"""A LangChain agent with a scripted model, instrumented by OpenInference."""

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolCall
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import story


class ScriptedModel(GenericFakeChatModel):
    """Says what the story says, whatever it is asked."""

    def bind_tools(self, tools, **kwargs):
        return self


provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
LangChainInstrumentor().instrument(tracer_provider=provider)

replies = [
    AIMessage(content="", tool_calls=[ToolCall(name=name, args=arguments, id=call_id)])
    for call_id, name, arguments in story.STEPS
]
model = ScriptedModel(messages=iter([*replies, AIMessage(content=story.ANSWER)]))
agent = create_agent(model, [story.lookup_order, story.issue_refund], name="refunds")
agent.invoke(
    {"messages": [{"role": "user", "content": story.QUESTION}]},
    config={"configurable": {"thread_id": "conversation-1"}, "metadata": {"session_id": "conversation-1"}},
)
provider.shutdown()
