package refunds;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;

/** A local server that says the story's steps in the format of OpenAI's chat completions. */
final class ScriptedModel implements AutoCloseable {

  private static final String REPLY =
      """
      {"id": "c", "object": "chat.completion", "created": 1, "model": "scripted",
       "choices": [{"index": 0, "finish_reason": "%s", "message": {"role": "assistant", %s}}],
       "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}
      """;

  private static final String CALL =
      """
      "content": null, "tool_calls": [{"id": "%s", "type": "function",
       "function": {"name": "%s", "arguments": "%s"}}]
      """;

  private final HttpServer server;
  private final Queue<String> script =
      new ArrayDeque<>(
          List.of(
              call("call_1", "lookup_order", "{\\\"order_id\\\": \\\"A-17\\\", \\\"verbose\\\": true}"),
              call("call_2", "issue_refund", "{\\\"order\\\": \\\"A-17\\\", \\\"amount\\\": 129.5}"),
              REPLY.formatted("stop", "\"content\": \"Order A-17 was refunded.\"")));

  ScriptedModel() throws IOException {
    server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    server.createContext("/", this::answer);
    server.start();
  }

  private static String call(String id, String name, String arguments) {
    return REPLY.formatted("tool_calls", CALL.formatted(id, name, arguments));
  }

  private void answer(HttpExchange exchange) throws IOException {
    exchange.getRequestBody().readAllBytes();
    byte[] body = script.remove().getBytes(StandardCharsets.UTF_8);
    exchange.getResponseHeaders().add("content-type", "application/json");
    exchange.sendResponseHeaders(200, body.length);
    exchange.getResponseBody().write(body);
    exchange.close();
  }

  String url() {
    return "http://127.0.0.1:" + server.getAddress().getPort();
  }

  @Override
  public void close() {
    server.stop(0);
  }
}
