package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// What servers count. Not all count both.
const (
	requests = "requests" // sent by clients
	writes   = "writes"   // changes of the server's data, or entries of its log
)

// A counter returns what a server has counted so far. For Redis, the contender says which
// commands its scripts call. A nil counter counts nothing.
type counter func(ctx context.Context, c contender) (measure, error)

// during returns what the server counts while f runs.
func (count counter) during(ctx context.Context, c contender, f func() error) (measure, error) {
	if count == nil {
		return nil, f()
	}
	before, err := count(ctx, c)
	if err == nil {
		err = f()
	}
	if err != nil {
		return nil, err
	}
	after, err := count(ctx, c)
	for what := range after {
		after[what] -= before[what]
	}
	return after, err
}

// countRedis counts on all of the servers. The clients are used for nothing else.
func countRedis(clients ...*redis.Client) counter {
	return func(ctx context.Context, c contender) (measure, error) {
		m := measure{}
		for _, rdb := range clients {
			n, err := sent(ctx, rdb, c.inner)
			if err != nil {
				return nil, err
			}
			m[requests] += float64(n)
			info, err := rdb.Info(ctx).Result()
			if err != nil {
				return nil, err
			}
			text, err := redisTold(info, "rdb_changes_since_last_save")
			if err != nil {
				return nil, err
			}
			changes, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, err
			}
			m[writes] += changes
		}
		return m, nil
	}
}

// countEtcd counts the messages of all calls and streams, and the proposals to the cluster.
func countEtcd(addr string) counter {
	return func(ctx context.Context, _ contender) (measure, error) {
		body, err := get(ctx, "http://"+addr+"/metrics")
		if err != nil {
			return nil, err
		}
		defer body.Close()
		m := measure{}
		for lines := bufio.NewScanner(body); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), " ")
			name, _, _ = strings.Cut(name, "{")
			what, ok := map[string]string{"grpc_server_msg_received_total": requests, "etcd_server_proposals_applied_total": writes}[name]
			if !ok {
				continue
			}
			if _, labelled, is := strings.Cut(lines.Text(), "} "); is {
				value = labelled
			}
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			m[what] += n
		}
		return m, nil
	}
}

func get(ctx context.Context, url string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		return nil, fmt.Errorf("%s: %s", url, answer.Status)
	}
	return answer.Body, nil
}

// countZooKeeper counts packets, including pings, and transactions.
func countZooKeeper(addr string) counter {
	return func(ctx context.Context, _ contender) (measure, error) {
		says, err := zooKeeperSays(ctx, addr)
		if err != nil {
			return nil, err
		}
		m := measure{}
		for line := range strings.Lines(says) {
			what, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			column, ok := map[string]string{"Received": requests, "Zxid": writes}[what]
			if !ok {
				continue
			}
			n, err := strconv.ParseUint(value, 0, 64)
			if err != nil {
				return nil, fmt.Errorf("srvr: %s: %w", what, err)
			}
			m[column] = float64(n & (1<<32 - 1)) // the higher bits are the epoch of the Zxid
		}
		return m, nil
	}
}

// countNATS counts the messages that clients have sent, and the messages that all streams have
// stored.
func countNATS(monitor string) counter {
	return func(ctx context.Context, _ contender) (measure, error) {
		var vars struct {
			InMsgs float64 `json:"in_msgs"`
		}
		var streams struct {
			Accounts []struct {
				Streams []struct {
					State struct {
						LastSeq float64 `json:"last_seq"`
					} `json:"state"`
				} `json:"stream_detail"`
			} `json:"account_details"`
		}
		for path, into := range map[string]any{"/varz": &vars, "/jsz?streams=true": &streams} {
			body, err := get(ctx, "http://"+monitor+path)
			if err != nil {
				return nil, err
			}
			err = json.NewDecoder(body).Decode(into)
			body.Close()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
		m := measure{requests: vars.InMsgs}
		for _, a := range streams.Accounts {
			for _, s := range a.Streams {
				m[writes] += s.State.LastSeq
			}
		}
		return m, nil
	}
}

// countPostgres counts statements and written rows. The connection is used for nothing else.
func countPostgres(conn *pgx.Conn) counter {
	return func(ctx context.Context, _ contender) (measure, error) {
		var statements, rows float64
		err := conn.QueryRow(ctx, `SELECT (SELECT sum(calls) FROM pg_stat_statements)::float8,
			(SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) FROM pg_stat_user_tables)::float8`).Scan(&statements, &rows)
		return measure{requests: statements, writes: rows}, err
	}
}

// countMariaDB counts statements and written rows.
func countMariaDB(db *sql.DB) counter {
	return func(ctx context.Context, _ contender) (measure, error) {
		rows, err := db.QueryContext(ctx, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions', 'Handler_write', 'Handler_update', 'Handler_delete')")
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		m := measure{}
		for rows.Next() {
			var name string
			var n float64
			if err := rows.Scan(&name, &n); err != nil {
				return nil, err
			}
			if name == "Questions" {
				m[requests] = n
			} else {
				m[writes] += n
			}
		}
		return m, rows.Err()
	}
}

// countS3 counts the lines of versitygw's access log. It has one line for each request, written before the answer. A
// PUT or DELETE that succeeds is a write.
func countS3(log string) counter {
	return func(context.Context, contender) (measure, error) {
		text, err := os.ReadFile(log)
		if err != nil {
			return nil, err
		}
		m := measure{requests: 0, writes: 0}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if !strings.HasSuffix(line, "\n") || strings.HasPrefix(line, "log starts ") {
				continue
			}
			if len(f) < 11 {
				return nil, fmt.Errorf("the access log of versitygw has a line in another format: %s", line)
			}
			m[requests]++
			operation, status := f[7], f[10] // our buckets and keys contain no spaces
			if (operation == "s3_PutObject" || operation == "s3_DeleteObject") && strings.HasPrefix(status, "2") {
				m[writes]++
			}
		}
		return m, nil
	}
}
