//! `heaplab snapshot query`.

use super::*;

#[test]
fn a_query_filters_groups_sorts_and_tops() {
    let (_files, path) = Files::with("node20-names");
    let rows = |query: &str| json(&heaplab(&["query"], &path, &[query, "--json"]));
    let twins = rows("where class = \"Twin\" | sort id | top 3 | select id, class, shallow");
    assert_eq!((&twins["found"], twins["rows"].as_array().unwrap().len()), (&10.into(), 3));
    let ids: Vec<u64> =
        twins["rows"].as_array().unwrap().iter().map(|row| row["id"].as_u64().unwrap()).collect();
    assert!(ids.is_sorted() && twins["rows"][0].as_object().unwrap().len() == 3, "{twins}");
    let types = rows("group type | sort count");
    let counts: Vec<u64> = types["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["count"].as_u64().unwrap())
        .collect();
    let all = rows("top 1")["found"].as_u64().unwrap();
    assert!(counts.is_sorted_by(|a, b| a >= b) && counts.iter().sum::<u64>() == all, "{types}");
    assert_eq!(rows("where id / 0 > 1")["found"], 0, "neither more nor less");
    let wrong = heaplab(&["query"], &path, &["sort size"]);
    assert_eq!(
        (
            wrong.status.code(),
            String::from_utf8_lossy(&wrong.stderr).contains("sort size\n       ^")
        ),
        (Some(2), true)
    );
}

/// The first rows are those of all rows sorted, whatever they are sorted by.
#[test]
fn a_query_gives_the_first_rows_in_order() {
    let (_files, path) = Files::with("node20-names");
    let rows = |query: String| {
        json(&heaplab(&["query"], &path, &[&query, "--json"]))["rows"].as_array().unwrap().clone()
    };
    let sorts =
        ["name asc", "name desc", "class asc", "type desc", "retained desc", "distance asc"];
    let groups = [
        "group name, class | sort name asc",
        "group name, class | sort class desc",
        "group type, name | sort retained desc",
    ];
    for query in sorts.iter().map(|sort| format!("sort {sort}")).chain(groups.map(String::from)) {
        let (query, words) =
            (format!("where shallow > 500 | {query}"), query.split(' ').rev().collect::<Vec<_>>());
        let (all, first) = (rows(query.clone()), rows(format!("{query} | top 25")));
        assert_eq!(all[..25], first, "{query}");
        let key = |row: &Value| {
            let value =
                row.get(words[1]).or_else(|| row.get(format!("{}_bytes", words[1]))).unwrap();
            (value.as_i64(), value.as_str().map(String::from))
        };
        let sorted = |two: &[Value]| {
            if words[0] == "asc" {
                key(&two[0]) <= key(&two[1])
            } else {
                key(&two[0]) >= key(&two[1])
            }
        };
        assert!(all.windows(2).all(sorted) && all.len() > 50, "{query}: {} rows", all.len());
    }
}

/// Rows as Parquet, read by pandas.
#[test]
fn a_query_writes_parquet_that_others_read() {
    let Some(python) = std::env::var_os("HEAPLAB_PYTHON") else {
        heaplab_oracle::skip("HEAPLAB_PYTHON names no Python");
        return;
    };
    let (files, path) = Files::with("node20-names");
    let out = files.path("rows.parquet");
    text(&heaplab(
        &["query"],
        &path,
        &["select id, class, distance, shallow, dominator", "-o", out.to_str().unwrap()],
    ));
    let script = "import pandas, sys; t = pandas.read_parquet(sys.argv[1]); \
        print(len(t), int(t.shallow_bytes.sum()), int((t['class'] == 'Twin').sum()), int(t.distance.min()), list(t.columns), t.id.dtype)";
    let read = Command::new(python).args(["-c", script]).arg(&out).output().unwrap();
    let read = text(&read);
    let sums =
        json(&heaplab(&["query"], &path, &["group detached | select count, shallow", "--json"]));
    let sum = |field: &str| {
        sums["rows"].as_array().unwrap().iter().map(|row| row[field].as_u64().unwrap()).sum::<u64>()
    };
    let expected = format!("{} {} 10 ", sum("count"), sum("shallow_bytes"));
    assert!(read.starts_with(&expected), "{read} is not {expected}");
    assert!(
        read.trim().ends_with("['id', 'class', 'distance', 'shallow_bytes', 'dominator'] uint32"),
        "{read}"
    );
}
