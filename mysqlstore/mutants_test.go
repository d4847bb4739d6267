package mysqlstore

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutant"
	"github.com/holdfast-go/holdfast/internal/testserver"
)

const (
	same          = "TestDifferential"
	crowd         = "TestStore/promise/nobody_is_inside_with_a_writer_and_no_count_is_lost"
	anyConnection = "TestItWorksHoweverTheConnectionsAreSet/as_they_come"
	lockedRow     = "TestALockedRowKeepsNoOtherHoldFromBeingRenewed"
	onMySQL       = "/MySQL_9.7"
)

// mutants are one wrong thing each in the statements.
var mutants = []struct {
	name, test string
	edits      []mutant.Edit
}{
	{"an idle name is had by all", same, []mutant.Edit{mutant.At("mysql-idle", mutant.Line(`" AND total>=0" +`))}},
	{"a name never used is had by all", same, []mutant.Edit{mutant.At("mysql-insert-idle", mutant.Value(`"total>=0"`))}},
	{"a refusal tells a token", same, []mutant.Edit{mutant.At("mysql-insert-tells", mutant.Line(""))}},
	{"a token is the one before", same, []mutant.Edit{mutant.At("mysql-token", mutant.Line(`token = "GREATEST(newest+0," +`))}},
	{"a hold is given back by any token", same, []mutant.Edit{mutant.At("mysql-sole-token", mutant.Line(`" AND 0<>" +`))}},
	{"an expired hold is renewed and given back", same, []mutant.Edit{mutant.At("mysql-sole-expires", mutant.Line(`" AND 0<" +`)), mutant.At("mysql-push-all-expires", mutant.Line(`" AND 0<" +`))}},
	{"a minimum hold is given back", same, []mutant.Edit{mutant.At("mysql-free-keep", mutant.Line(`" AND 0<=" +`))}},
	{"more of a block is given back than there is", same, []mutant.Edit{mutant.At("mysql-free-block", mutant.Line(`"<" + end + "+10" +`))}},
	{"a hold is given back with all who wait", same, []mutant.Edit{mutant.At("mysql-sole-total", mutant.Line(`" AND total>=1" +`))}},
	{"a renewal moves the expiry back", same, []mutant.Edit{mutant.At("mysql-later", mutant.Line(`"0" +`))}},
	{"a broken hold is renewed", anyConnection, []mutant.Edit{mutant.At("mysql-push-broken", mutant.Line("")), mutant.At("mysql-push-all-broken", mutant.Line(""))}},
	{"a renewal does not tell of an upgrade", "TestStore/promise/Upgrade_is_granted_when_the_last_reader_leaves_and_a_renewal_tells", []mutant.Edit{mutant.At("mysql-push-fence", mutant.Line(`""`))}},
	{"a renewal does not show the token", same, []mutant.Edit{mutant.At("mysql-shown", mutant.Return(`"flags=flags|0"`))}},
	{"the newest token used goes back", anyConnection, []mutant.Edit{mutant.At("mysql-push-turn", mutant.Line(`"GREATEST(0," +`))}},
	{"all of many are renewed, whosever they are", same, []mutant.Edit{mutant.At("mysql-push-all-own", mutant.Line(`b.WriteString(" OR (name,id,token) IN (")`))}},
	{"a row is written that somebody has written", crowd, []mutant.Edit{mutant.At("mysql-write-rev", mutant.Line(`" AND 0<>" +`))}},
	{"what does not commit is written", "TestAConnectionWithoutAutocommitIsRefusedAndNothingIsWritten", []mutant.Edit{mutant.At("mysql-commits", mutant.Line(`return "1=1" +`))}},
	{"a renewal of many waits for a locked row", lockedRow + "/shared", []mutant.Edit{mutant.At("mysql-push-all-at-once", mutant.Line(`b.WriteString("/*M!100301 SET STATEMENT innodb_lock_wait_timeout=50 FOR*/ ")`))}},
	// From here on they need MySQL.
	{"a renewal of many waits for a locked row there", lockedRow + onMySQL, []mutant.Edit{mutant.At("mysql-unlocked-skip", mutant.Line(""))}},
	{"the rows that are free are not looked for first", lockedRow + onMySQL, []mutant.Edit{mutant.At("mysql-unlocked-limit", mutant.Line(""))}},
	{"the rows that are free are not found by their key", lockedRow + onMySQL, []mutant.Edit{mutant.At("mysql-unlocked-key", mutant.Line(`" ON name=n OR 1=1" +`))}},
	{"a deletion of many waits for a locked row there", "TestALockedRowKeepsNobodyFromNamesThatAreDeleted" + onMySQL, []mutant.Edit{mutant.At("mysql-unlocked-skip", mutant.Line(""))}},
}

// Each statement with one thing wrong is found out.
func TestTheTestsCatchEachMutantOfTheStatements(t *testing.T) {
	t.Parallel()
	there := false
	t.Run("those of MySQL", func(t *testing.T) {
		testserver.SharedMySQL9(t) // else it is skipped, and so are they
		there = true
	})
	var all []mutant.Broken
	for _, m := range mutants {
		if strings.HasSuffix(m.test, onMySQL) && !there {
			break
		}
		all = append(all, mutant.Broken{Name: m.name, Pkg: "mysqlstore", Test: m.test, Edits: m.edits, Says: func(r *mutant.Run) string {
			switch {
			case !r.Met:
				return "was sent no statement that it changes"
			case m.test == same && !strings.Contains(string(r.Output), "the model "):
				return "fails, but not as it differs from the model"
			}
			return ""
		}})
	}
	mutant.Catch(t, all, "HOLDFAST_TEST_MYSQL="+sharedDSN(t), "HOLDFAST_TEST_STEPS=8000", "HOLDFAST_TEST_PATIENCE=5s")
}
