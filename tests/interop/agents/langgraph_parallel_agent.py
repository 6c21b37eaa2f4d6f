"""A LangGraph agent whose model asks for both tools at once; the first call ends last."""

import asyncio

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolCall
from langchain_core.tools import StructuredTool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import story

refunded = asyncio.Event()


async def lookup_order(order_id: str, verbose: bool = False) -> str:
    """Looks an order up."""
    await refunded.wait()
    return story.lookup_order(order_id, verbose)


async def issue_refund(order: str, amount: float) -> str:
    """Pays an order back."""
    refunded.set()
    return story.issue_refund(order, amount)


provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
LangChainInstrumentor().instrument(tracer_provider=provider)

calls = [ToolCall(name=name, args=arguments, id=call_id) for call_id, name, arguments in story.STEPS]
model = GenericFakeChatModel(messages=iter([
    AIMessage(content="", tool_calls=calls), AIMessage(content=story.ANSWER),
]))
tools = [StructuredTool.from_function(coroutine=tool) for tool in (issue_refund, lookup_order)]
graph = StateGraph(MessagesState)
graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
graph.add_node("tools", ToolNode(tools))
graph.add_edge(START, "model")
graph.add_conditional_edges("model", tools_condition, {"tools": "tools", END: END})
graph.add_edge("tools", "model")
asyncio.run(graph.compile(name="refunds").ainvoke({"messages": [{"role": "user", "content": story.QUESTION}]}))
provider.shutdown()
