"""A shop's agent on LangGraph. Its model is scripted, so that each run is the same."""

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolCall
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


def find_order(order: str) -> dict:
    """Looks an order up."""
    return {"order": order, "total": 42.5, "status": "delivered"}


def issue_refund(order: str, amount: float) -> dict:
    """Pays an order back."""
    return {"order": order, "refunded": amount}


CASES = {
    "status": ("Where is order B-3?", [("find_order", {"order": "B-3"})], "It was delivered."),
    "refund": (
        "Please refund order A-17.",
        [("find_order", {"order": "A-17"}), ("issue_refund", {"order": "A-17", "amount": 42.5})],
        "It is paid back.",
    ),
}


def run(case: str) -> None:
    question, calls, answer = CASES[case]
    replies = [
        AIMessage("", tool_calls=[ToolCall(name=name, args=args, id=f"call-{number}")])
        for number, (name, args) in enumerate(calls)
    ]
    model = GenericFakeChatModel(messages=iter([*replies, AIMessage(answer)]))
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([find_order, issue_refund]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition, {"tools": "tools", END: END})
    graph.add_edge("tools", "model")
    graph.compile(name="shop").invoke(
        {"messages": [("user", question)]}, config={"metadata": {"case": case}}
    )


provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
LangChainInstrumentor().instrument(tracer_provider=provider)
for name in CASES:
    run(name)
provider.shutdown()
