# SQL for sqlite.c: two tables, two indices, and statements that each are another.
BEGIN {
    print "CREATE TABLE a(id INTEGER PRIMARY KEY, k INTEGER, name TEXT, v REAL);"
    print "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i<4000) INSERT INTO a SELECT i, (i*7919)%10007, 'name-'||i||'-'||hex(i*31), i*0.5 FROM c;"
    print "CREATE INDEX ak ON a(k);"
    for (i = 0; i < 1000; i++)
        printf "SELECT k, count(*), max(name) FROM a WHERE id BETWEEN %d AND %d AND k <> %d GROUP BY k ORDER BY 2 DESC;\n", i * 3, i * 3 + 5, i
}
