// What `cargo xtask bench recorder` has the C++ compiler compile: headers that a real program includes, and enough instances of
// templates that the compiler allocates for seconds. Nothing here is run.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int N> struct Key {
    int value = N;
    bool operator<(const Key &other) const { return value < other.value; }
};

template <int N> struct Table {
    std::map<Key<N>, std::vector<std::tuple<int, std::string, Key<N>>>> rows;
    std::unordered_map<std::string, std::function<int(Key<N>, int)>> columns;

    int sum(int from)
    {
        int total = 0;
        for (auto &[key, values] : rows)
            for (auto &[number, text, inner] : values)
                total += number + static_cast<int>(text.size()) + inner.value + key.value;
        for (auto &[name, f] : columns)
            total += f(Key<N>{}, from) + static_cast<int>(name.size());
        return total;
    }

    void add(int number, std::string text)
    {
        auto &row = rows[Key<N>{}];
        row.emplace_back(number, std::move(text), Key<N>{});
        std::sort(row.begin(), row.end(), [](const auto &a, const auto &b) { return std::get<0>(a) < std::get<0>(b); });
        columns.emplace("c" + std::to_string(number), [number](Key<N> key, int x) { return key.value * x + number; });
    }
};

template <int N> int visit_all()
{
    std::variant<int, std::string, std::unique_ptr<Table<N>>> any = std::make_unique<Table<N>>();
    return std::visit(
        [](auto &value) -> int {
            using V = std::decay_t<decltype(value)>;
            if constexpr (std::is_same_v<V, int>)
                return value;
            else if constexpr (std::is_same_v<V, std::string>)
                return static_cast<int>(value.size());
            else {
                value->add(N, "text");
                return value->sum(N);
            }
        },
        any);
}

template <int... N> int all(std::integer_sequence<int, N...>) { return (visit_all<N>() + ...); }

int count_words(const std::string &text)
{
    static const std::regex word("([A-Za-z]+)(?:'([a-z]+))?");
    return static_cast<int>(std::distance(std::sregex_iterator(text.begin(), text.end(), word), std::sregex_iterator()));
}

int main() { return all(std::make_integer_sequence<int, 12>()) + count_words("it's only to be compiled"); }
