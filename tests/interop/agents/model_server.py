"""A local server that plays the story's model, in the wire formats of two providers."""

import json

import json_server
import story


def openai_chat(step):
    """A reply in the format of OpenAI's chat completions."""
    message = {"role": "assistant", "content": story.ANSWER if step is None else None}
    if step is not None:
        call_id, name, arguments = step
        function = {"name": name, "arguments": json.dumps(arguments)}
        message["tool_calls"] = [{"id": call_id, "type": "function", "function": function}]
    reason = "stop" if step is None else "tool_calls"
    return {
        "id": "c", "object": "chat.completion", "created": 1, "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


def anthropic_messages(step):
    """A reply in the format of Anthropic's messages."""
    content = [{"type": "text", "text": story.ANSWER if step is None else "One moment."}]
    if step is not None:
        call_id, name, arguments = step
        content.append({"type": "tool_use", "id": call_id, "name": name, "input": arguments})
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": content,
        "stop_reason": "end_turn" if step is None else "tool_use", "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def serve(reply):
    """Starts the server, which says one step after the other and then the answer; its address."""
    script = iter(story.STEPS)
    return json_server.serve(lambda *_: (200, reply(next(script, None))))
