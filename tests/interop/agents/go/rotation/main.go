// Exports spans until a file says stop, with the Go SDK over gRPC, and reads its token anew when that
// changes: prints how many exports went well and how many failed. The last token that an export went well
// with stands in the token's file with `.used` behind its name.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// The SDK's exporter, made anew with each token.
type rotating struct {
	token  string
	inner  *otlptrace.Exporter
	counts map[string]int
}

func (own *rotating) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	read, err := os.ReadFile(os.Getenv("TOKEN_FILE"))
	if err != nil {
		log.Fatal(err)
	}
	if token := strings.TrimSpace(string(read)); token != own.token {
		if err := own.Shutdown(ctx); err != nil {
			log.Fatal(err)
		}
		headers := otlptracegrpc.WithHeaders(map[string]string{"authorization": "Bearer " + token})
		if own.inner, err = otlptracegrpc.New(ctx, headers); err != nil {
			log.Fatal(err)
		}
		own.token = token
		own.counts["tokens"]++
	}
	err = own.inner.ExportSpans(ctx, spans)
	if err == nil {
		own.counts["exported"]++
		if err := os.WriteFile(os.Getenv("TOKEN_FILE")+".used", []byte(own.token), 0o600); err != nil {
			log.Fatal(err)
		}
	} else {
		log.Print(err)
		own.counts["failed"]++
	}
	return err
}

func (own *rotating) Shutdown(ctx context.Context) error {
	if own.inner == nil {
		return nil
	}
	return own.inner.Shutdown(ctx)
}

func main() {
	ctx := context.Background()
	exporter := &rotating{counts: map[string]int{"exported": 0, "failed": 0, "tokens": 0}}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	tracer := provider.Tracer("rotation")
	for {
		if _, err := os.Stat(os.Getenv("STOP_FILE")); err == nil {
			break
		}
		_, span := tracer.Start(ctx, "execute_tool search")
		span.SetAttributes(attribute.String("gen_ai.operation.name", "execute_tool"),
			attribute.String("gen_ai.tool.name", "search"))
		span.End()
		time.Sleep(20 * time.Millisecond)
	}
	if err := provider.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(exporter.counts); err != nil {
		log.Fatal(err)
	}
}
