package refunds;

import java.util.Map;
import org.springframework.ai.chat.client.ChatClient;
import org.springframework.ai.chat.memory.ChatMemory;
import org.springframework.ai.tool.annotation.Tool;
import org.springframework.boot.CommandLineRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;

/** A Spring AI agent with a scripted model, instrumented by Spring AI itself. */
@SpringBootApplication
public class RefundAgent {

  /** The story's tools. */
  static class Tools {

    @Tool(name = "lookup_order", description = "Looks an order up.")
    Map<String, Object> lookupOrder(String order_id, boolean verbose) {
      return Map.of("order_id", order_id, "total", 129.5, "note", "gift: „für dich“");
    }

    @Tool(name = "issue_refund", description = "Pays an order back.")
    Map<String, Object> issueRefund(String order, double amount) {
      return Map.of("order", order, "refunded", amount);
    }
  }

  public static void main(String[] arguments) throws Exception {
    try (ScriptedModel model = new ScriptedModel()) {
      System.setProperty("MODEL_URL", model.url());
      // Closing the context sends the spans that wait.
      SpringApplication.run(RefundAgent.class, arguments).close();
    }
  }

  @Bean
  CommandLineRunner agent(ChatClient.Builder chat) {
    return arguments ->
        chat.build()
            .prompt()
            .user("Please refund my order A-17.")
            .tools(new Tools())
            .advisors(advisors -> advisors.param(ChatMemory.CONVERSATION_ID, "s-1"))
            .call()
            .content();
  }
}
