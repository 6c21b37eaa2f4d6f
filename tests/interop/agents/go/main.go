// A program around the Go SDK alone: two tools by the conventions, sent by its own OTLP exporter.
package main

import (
	"context"
	"encoding/json"
	"log"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

type step struct {
	id, name          string
	arguments, result map[string]any
}

var story = []step{
	{"call_1", "lookup_order", map[string]any{"order_id": "A-17", "verbose": true}, map[string]any{"order_id": "A-17", "total": 129.5}},
	{"call_2", "issue_refund", map[string]any{"order": "A-17", "amount": 129.5}, map[string]any{"order": "A-17", "refunded": 129.5}},
}

func text(value map[string]any) string {
	written, err := json.Marshal(value)
	if err != nil {
		log.Fatal(err)
	}
	return string(written)
}

func main() {
	ctx := context.Background()
	exporter, err := otlptracegrpc.New(ctx)
	if err != nil {
		log.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
	tracer := provider.Tracer("agent")
	ctx, root := tracer.Start(ctx, "invoke_agent refunds")
	root.SetAttributes(attribute.String("gen_ai.operation.name", "invoke_agent"), attribute.String("gen_ai.agent.name", "refunds"))
	for _, step := range story {
		_, span := tracer.Start(ctx, "execute_tool "+step.name)
		span.SetAttributes(
			attribute.String("gen_ai.operation.name", "execute_tool"),
			attribute.String("gen_ai.tool.name", step.name),
			attribute.String("gen_ai.tool.call.id", step.id),
			attribute.String("gen_ai.tool.call.arguments", text(step.arguments)),
			attribute.String("gen_ai.tool.call.result", text(step.result)),
		)
		span.End()
	}
	root.End()
	if err := provider.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
}
