package pgadvisory

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/pgstore/internal/connect"
	"github.com/holdfast-go/holdfast/store"
)

// Check implements [store.Checker]. It opens one more session for a moment, unless one is open:
// that one has shown the same.
func (s *Store) Check(ctx context.Context) []store.Finding {
	const about = "session"
	s.mu.Lock()
	open := s.conn != nil //mutant:pg-session-check-open
	s.mu.Unlock()
	tokens := store.Finding{About: "tokens", Found: "from the sequence " + s.sequence}
	if s.sequence == "" { //mutant:pg-session-no-tokens-told
		tokens.Warning = true
		tokens.Found = "none: a holder whose session has ended may work on beside the next, and nothing can refuse it; have tokens drawn (?tokens=1 in the URL), and check them"
	}
	if open {
		return []store.Finding{{About: about, Found: "there is one"}, tokens}
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return []store.Finding{{About: about, Err: err}}
	}
	defer s.hangUp(conn)
	if s.sequence != "" {
		tokens = s.checkSequence(ctx, conn)
	}
	return []store.Finding{{About: about, Found: "works, directly with the server, not through a pooler"}, tokens}
}

// checkSequence reports the state of the tokens' sequence, without creating it.
func (s *Store) checkSequence(ctx context.Context, conn *pgconn.PgConn) store.Finding {
	found := store.Finding{About: "tokens"}
	rows, err := query(ctx, conn, fmt.Sprintf(describe, s.schema))
	switch {
	case err != nil:
		found.Err = s.failed("look for the sequence "+s.sequence, err)
	case len(rows) == 0:
		found.Run = fmt.Sprintf(createSequence, s.sequence) + ";\n" + s.grants(ctx, conn)
		if rows, err = query(ctx, conn, "SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = '"+s.schema+"'"); err != nil {
			found.Err = s.failed("look for the schema "+s.schema, err)
		} else if len(rows) == 0 {
			found.Err = fmt.Errorf("%w: there is no schema %s: create it, or name another", store.ErrInvalid, s.schema)
		} else if rows[0][0] != "t" {
			found.Err = fmt.Errorf("%w: the sequence %s is missing, and this user may not create it: ask an administrator to create it", store.ErrDenied, s.sequence)
		} else {
			found.Found, found.Run = "the sequence "+s.sequence+" is made at the first use", ""
		}
	default:
		found.Found = "from the sequence " + s.sequence
		if found.Err = s.judgeSequence(rows[0]); found.Err != nil {
			found.Run = s.grants(ctx, conn)
		}
	}
	return found
}

// grants returns the SQL that gives this user enough rights on the sequence.
func (s *Store) grants(ctx context.Context, conn *pgconn.PgConn) string {
	user := "the_user"
	if rows, err := query(ctx, conn, "SELECT quote_ident(current_user)"); err == nil && len(rows) > 0 { //mutant:pg-session-grant-names-its-user
		user = rows[0][0]
	}
	return "GRANT USAGE ON SCHEMA " + connect.Quote(s.schema) + " TO " + user + ";\nGRANT USAGE, SELECT ON SEQUENCE " + s.sequence + " TO " + user + ";\n"
}
