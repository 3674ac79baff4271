/* Runs the SQL on standard input on a database in memory. A program that asks the same again and
 * again keeps its prepared statements; so does this one. */
#include <stdio.h>
#include <stdlib.h>
#include "sqlite3.h"
int main(void) {
  size_t room = 1 << 20, bytes = 0, count = 0;
  char *sql = malloc(room);
  for (int letter; (letter = getchar()) != EOF; sql[bytes++] = (char)letter)
    if (bytes + 2 > room) sql = realloc(sql, room *= 2);
  sql[bytes] = 0;
  sqlite3_stmt **kept = malloc(100000 * sizeof *kept), *statement;
  sqlite3 *db;
  if (sqlite3_open(":memory:", &db)) return 1;
  for (const char *rest = sql; *rest;) {
    if (sqlite3_prepare_v2(db, rest, -1, &statement, &rest)) break;
    if (!statement) continue;
    while (sqlite3_step(statement) == SQLITE_ROW) {}
    if (sqlite3_reset(statement)) break;
    if (count < 100000) kept[count++] = statement; else sqlite3_finalize(statement);
  }
  if (sqlite3_errcode(db)) fprintf(stderr, "%s\n", sqlite3_errmsg(db));
  while (count > 0) sqlite3_finalize(kept[--count]);
  sqlite3_close(db);
  free(kept);
  free(sql);
  return 0;
}
