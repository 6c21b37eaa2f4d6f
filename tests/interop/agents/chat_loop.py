"""The loop of an agent without a framework, around OpenAI's chat completions."""

import json

import story

TOOLS = {"lookup_order": story.lookup_order, "issue_refund": story.issue_refund}


def run(client):
    """Asks and calls until the model has answered."""
    definitions = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in TOOLS
    ]
    messages = [{"role": "user", "content": story.QUESTION}]
    while True:
        reply = client.chat.completions.create(model="scripted", messages=messages, tools=definitions)
        message = reply.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return message.content
        for call in message.tool_calls:
            result = TOOLS[call.function.name](**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
