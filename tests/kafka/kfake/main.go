// Brokers in memory for the tests, and a reader of what is in them.
//
//	kfake serve --port 19092 --topic otlp_spans:12
//	kfake read --brokers 127.0.0.1:19092 --topic otlp_spans --count 3 --within 10s
//
// `serve` runs until its standard input is closed. `read` prints each record from the beginning as
// a line of JSON: partition, key, headers, and the value in base64. `commit` commits offset 0 of a
// partition for a group that has no members, with metadata that is no text.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("name `serve`, `read` or `commit`"))
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	var err error
	switch os.Args[1] {
	case "serve":
		err = serve(flags)
	case "read":
		err = read(flags)
	case "commit":
		err = commit(flags)
	default:
		err = fmt.Errorf("unknown command %q: name `serve`, `read` or `commit`", os.Args[1])
	}
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "kfake:", err)
	os.Exit(1)
}

type topics map[int32][]string

func (t topics) String() string { return fmt.Sprint(map[int32][]string(t)) }

func (t topics) Set(text string) error {
	name, count, _ := strings.Cut(text, ":")
	if count == "" {
		count = "1"
	}
	partitions, err := strconv.Atoi(count)
	if err != nil {
		return fmt.Errorf("%q: write NAME:PARTITIONS", text)
	}
	t[int32(partitions)] = append(t[int32(partitions)], name)
	return nil
}

func serve(flags *flag.FlagSet) error {
	port := flags.Int("port", 0, "port of the only broker; 0 takes a free one")
	seeded := topics{}
	flags.Var(seeded, "topic", "NAME:PARTITIONS, may be given more than once")
	certificate := flags.String("cert", "", "PEM file of the broker's certificate, for TLS")
	key := flags.String("key", "", "PEM file of its key")
	sasl := flags.String("sasl", "", "MECHANISM:USER:PASSWORD that signs in")
	if err := flags.Parse(os.Args[2:]); err != nil {
		return err
	}
	options := []kfake.Opt{kfake.NumBrokers(1), kfake.Ports(*port)}
	if *certificate != "" {
		pair, err := tls.LoadX509KeyPair(*certificate, *key)
		if err != nil {
			return err
		}
		options = append(options, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}))
	}
	if *sasl != "" {
		parts := strings.SplitN(*sasl, ":", 3)
		if len(parts) != 3 {
			return fmt.Errorf("%q: write MECHANISM:USER:PASSWORD", *sasl)
		}
		options = append(options, kfake.EnableSASL(), kfake.Superuser(parts[0], parts[1], parts[2]))
	}
	for partitions, names := range seeded {
		options = append(options, kfake.SeedTopics(partitions, names...))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		return err
	}
	defer cluster.Close()
	fmt.Println(cluster.ListenAddrs()[0])
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

type record struct {
	Partition int32             `json:"partition"`
	Key       string            `json:"key"`
	Headers   map[string]string `json:"headers"`
	Value     []byte            `json:"value"`
}

func read(flags *flag.FlagSet) error {
	brokers := flags.String("brokers", "127.0.0.1:9092", "addresses of brokers")
	topic := flags.String("topic", "otlp_spans", "topic to read")
	count := flags.Int("count", 1, "records to read")
	within := flags.Duration("within", 10*time.Second, "longest wait for them")
	if err := flags.Parse(os.Args[2:]); err != nil {
		return err
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(*brokers, ",")...),
		kgo.ConsumeTopics(*topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), *within)
	defer cancel()
	out := json.NewEncoder(os.Stdout)
	for found := 0; found < *count; {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d records within %s", found, *count, *within)
		}
		var failed error
		fetches.EachError(func(_ string, _ int32, err error) { failed = err })
		if failed != nil {
			return failed
		}
		fetches.EachRecord(func(r *kgo.Record) {
			headers := map[string]string{}
			for _, header := range r.Headers {
				headers[header.Key] = string(header.Value)
			}
			if err := out.Encode(record{r.Partition, string(r.Key), headers, r.Value}); err != nil {
				failed = err
			}
			found++
		})
		if failed != nil {
			return failed
		}
	}
	return nil
}

func commit(flags *flag.FlagSet) error {
	brokers := flags.String("brokers", "127.0.0.1:9092", "addresses of brokers")
	topic := flags.String("topic", "otlp_spans", "topic")
	group := flags.String("group", "spanscore", "group")
	if err := flags.Parse(os.Args[2:]); err != nil {
		return err
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(*brokers, ",")...),
		// Later ones name topics by ids.
		kgo.MaxVersions(kversion.V3_0_0()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	noText := "\xff\xfe"
	partition := kmsg.NewOffsetCommitRequestTopicPartition()
	partition.Metadata = &noText
	of := kmsg.NewOffsetCommitRequestTopic()
	of.Topic = *topic
	of.Partitions = append(of.Partitions, partition)
	request := kmsg.NewPtrOffsetCommitRequest()
	request.Group = *group
	request.Generation = -1
	request.Topics = append(request.Topics, of)
	// Without an end the client looks for a coordinator for ever.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	if code := answer.Topics[0].Partitions[0].ErrorCode; code != 0 {
		return fmt.Errorf("the brokers refuse the commit with code %d", code)
	}
	return nil
}
