/* SQLite with its own counters as reporters. SQLite adds 8 bytes to each request for the size, and
 * counts what it asked for: Firefox's SQLite used 1.15 to 1.20 times what it thought. */
#include "heaplab_reporter.h"
#include <sqlite3.h>
#include <stdio.h>

static void report_db(heaplab_sink *sink, sqlite3 *db, int what, const char *path, const char *description)
{
    int now = 0, most = 0;
    if (sqlite3_db_status(db, what, &now, &most, 0) == SQLITE_OK)
        heaplab_reporter_report(sink, path, HEAPLAB_HEAP, HEAPLAB_BYTES, now, description);
}

static void collect(heaplab_sink *sink, void *db)
{
    sqlite3_int64 used = 0, most = 0;
    report_db(sink, db, SQLITE_DBSTATUS_CACHE_USED, "explicit/sqlite/cache", "Pages.");
    report_db(sink, db, SQLITE_DBSTATUS_SCHEMA_USED, "explicit/sqlite/schema", "Tables and indices.");
    report_db(sink, db, SQLITE_DBSTATUS_STMT_USED, "explicit/sqlite/statements", "Prepared statements.");
    sqlite3_status64(SQLITE_STATUS_MEMORY_USED, &used, &most, 0);
    heaplab_reporter_report(sink, "sqlite-used", HEAPLAB_OTHER, HEAPLAB_BYTES, used, "All that SQLite counts.");
}

static void drop_cache(void *db) { sqlite3_db_release_memory(db); }

int main(int count, char **arguments)
{
    sqlite3 *db;
    if (count != 2 || sqlite3_open(arguments[1], &db) != SQLITE_OK)
        return 1;
    if (sqlite3_exec(db,
                     "pragma cache_size = -40000; create table t(a integer primary key, b text);"
                     "with recursive n(i) as (select 1 union all select i + 1 from n where i < 30000)"
                     "insert into t select i, hex(zeroblob(300)) from n; select count(*) from t where b > 'a';",
                     NULL, NULL, NULL) != SQLITE_OK)
        return 2;
    heaplab_reporter_register(collect, db);
    heaplab_reporter_on_pressure(drop_cache, db);
    if (heaplab_reporter_serve())
        return 3;
    puts("ready");
    fflush(stdout);
    return getchar() == 'q' ? 0 : 4;
}
