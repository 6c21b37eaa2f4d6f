"""The same evaluators over gRPC: `pip install grpcio grpcio-tools`, then `python grpc_server.py`.

The messages are generated from the file of the protocol when the server starts.
"""
import argparse
import pathlib
import sys
import tempfile
from concurrent import futures

import grpc
from google.protobuf.json_format import MessageToDict, ParseDict
from grpc_tools import protoc

from server import describe, evaluate

PROTO = pathlib.Path(__file__).resolve().parents[3] / "proto"


def generate():
    """The modules of the protocol."""
    folder = tempfile.mkdtemp()
    well_known = pathlib.Path(protoc.__file__).parent / "_proto"
    paths = [f"-I{PROTO}", f"-I{well_known}", f"--python_out={folder}", f"--grpc_python_out={folder}"]
    file = "spanscore/evaluator/v1/evaluator.proto"
    assert protoc.main(["protoc", *paths, file]) == 0
    sys.path.insert(0, folder)
    from spanscore.evaluator.v1 import evaluator_pb2, evaluator_pb2_grpc

    return evaluator_pb2, evaluator_pb2_grpc


messages, services = generate()


class Servicer(services.EvaluatorServicer):
    def Describe(self, request, _context):
        return ParseDict(describe(MessageToDict(request)), messages.DescribeResponse())

    def Evaluate(self, request, _context):
        return ParseDict(evaluate(MessageToDict(request)), messages.EvaluateResponse())


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--address", default="127.0.0.1:9000")
    address = arguments.parse_args().address
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
    services.add_EvaluatorServicer_to_server(Servicer(), server)
    assert server.add_insecure_port(address)
    server.start()
    print(f"evaluators at {address}", flush=True)
    server.wait_for_termination()
