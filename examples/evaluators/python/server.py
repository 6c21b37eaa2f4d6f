"""An evaluator of your own: write a function of a trajectory, and serve it.

Only the standard library is needed. The protocol is `proto/spanscore/evaluator/v1/evaluator.proto`,
as JSON over HTTP; `grpc_server.py` serves the same functions over gRPC.
"""
import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from evaluators import EVALUATORS


def describe(_request):
    """What this server evaluates. Only what is needed is sent."""
    kinds = [
        {
            "name": name,
            "version": evaluator.version,
            "needs": ["FACT_" + need.upper() for need in evaluator.needs],
            "settingsSchema": json.dumps(evaluator.settings_schema),
        }
        for name, evaluator in EVALUATORS.items()
    ]
    return {"minor": 0, "kinds": kinds}


def evaluate(request):
    """One answer for each task."""
    evaluator = EVALUATORS[request["kind"]]
    settings = json.loads(request.get("settingsJson") or "{}")
    answers = []
    for task in request["tasks"]:
        answer = {"taskId": task["id"]}
        try:
            score, explanation = evaluator.function(task["trajectories"][-1], settings)
            if score is None:
                answer["notEvaluable"] = explanation
            else:
                answer.update(scored={"value": score}, explanation=explanation)
        except Exception as error:  # What breaks is no low score.
            answer["failed"] = {"type": type(error).__name__, "message": str(error)}
        answers.append(answer)
    return {"evaluations": answers}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        method = {"/describe": describe, "/evaluate": evaluate}.get(self.path)
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(method(request) if method else {}).encode()
        self.send_response(200 if method else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--port", type=int, default=9000)
    server = ThreadingHTTPServer(("127.0.0.1", arguments.parse_args().port), Handler)
    print(f"evaluators at http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
