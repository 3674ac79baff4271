# A text for words.awk.
BEGIN { for (i = 1; i <= 8000; i++) printf "line %d of a text that grows: %d\n", i, i * 7919 % 10007 }
