# Joins the lines of a text into one string a letter, and one of all.
{ all = all $0 "\n"; first = substr($0, 1, 1); by[first] = by[first] $0 " " }
END { n = length(all); for (letter in by) n += length(by[letter]); print n }
