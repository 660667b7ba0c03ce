#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/config/config_key.h"

namespace weft {

namespace internal {
struct ConfigTree;
struct ConfigValue;
}  // namespace internal

/// Inclusive bounds of a number: node.read("steps", config.steps, {.min = 1}).
template <typename T>
struct Range {
  std::optional<T> min = std::nullopt;
  std::optional<T> max = std::nullopt;
};

/// Spelling of each enumerator in a configuration: EnumNames<Schedule>{{"gpipe", kGpipe}, {"1f1b",
/// k1f1b}}.
template <typename E>
using EnumNames = std::vector<std::pair<std::string, E>>;

template <typename T>
concept ConfigInteger = std::integral<T> && !std::same_as<T, bool>;

namespace internal {
template <typename T>
struct ConfigElement {
  using Vector = void;
  using Optional = void;
};
template <typename T>
struct ConfigElement<std::vector<T>> {
  using Vector = T;
  using Optional = void;
};
template <typename T>
struct ConfigElement<std::optional<T>> {
  using Vector = void;
  using Optional = T;
};

/// Returns the bounds of the range; a missing bound is that of T.
template <ConfigInteger T>
std::pair<std::int64_t, std::int64_t> bounds_of(const Range<T>& range) {
  constexpr auto kLowest =
      static_cast<std::int64_t>(std::is_signed_v<T> ? std::numeric_limits<T>::min() : 0);
  constexpr auto kHighest = sizeof(T) < 8 ? static_cast<std::int64_t>(std::numeric_limits<T>::max())
                                          : std::numeric_limits<std::int64_t>::max();
  return {range.min ? static_cast<std::int64_t>(*range.min) : kLowest,
          range.max ? static_cast<std::int64_t>(*range.max) : kHighest};
}
template <std::floating_point T>
std::pair<double, double> bounds_of(const Range<T>& range) {
  constexpr T kHighest = std::numeric_limits<T>::max();
  return {range.min.value_or(-kHighest), range.max.value_or(kHighest)};
}

/// Returns the bounds of an optional number as bounds of the number.
template <typename T>
Range<T> inner_range(const Range<std::optional<T>>& range) {
  return {range.min.value_or(std::nullopt), range.max.value_or(std::nullopt)};
}

void describe_flag(ConfigKey& key);
void describe_integer(ConfigKey& key, std::int64_t min, std::int64_t max);
void describe_number(ConfigKey& key, double min, double max);
void describe_text(ConfigKey& key);
void describe_duration(ConfigKey& key);
void describe_list(ConfigKey& key);

/// Sets the type description of a key.
template <typename T>
void describe_type(ConfigKey& key, const Range<T>& range) {
  using VectorOf = typename ConfigElement<T>::Vector;
  using OptionalOf = typename ConfigElement<T>::Optional;
  if constexpr (std::same_as<T, bool>) {
    describe_flag(key);
  } else if constexpr (ConfigInteger<T>) {
    const auto [min, max] = bounds_of<T>(range);
    describe_integer(key, min, max);
  } else if constexpr (std::floating_point<T>) {
    const auto [min, max] = bounds_of<T>(range);
    describe_number(key, min, max);
  } else if constexpr (std::same_as<T, std::string>) {
    describe_text(key);
  } else if constexpr (std::same_as<T, Nanoseconds>) {
    describe_duration(key);
  } else if constexpr (!std::same_as<OptionalOf, void>) {
    describe_type<OptionalOf>(key, inner_range<OptionalOf>(range));
  } else {
    describe_type<VectorOf>(key, {});
    describe_list(key);
  }
}

/// Return a value as written in a run file: "60s", "[128, 64]", "true"; "" if there is none.
std::string yaml_text(bool value);
std::string yaml_text(std::int64_t value);
std::string yaml_text(double value);
std::string yaml_text(Nanoseconds value);
inline std::string yaml_text(const std::string& value) { return value; }
template <ConfigInteger T>
std::string yaml_text(T value) {
  return yaml_text(static_cast<std::int64_t>(value));
}
inline std::string yaml_text(float value) { return yaml_text(static_cast<double>(value)); }
template <typename T>
std::string yaml_text(const std::optional<T>& value) {
  return value ? yaml_text(*value) : "";
}
template <typename T>
std::string yaml_text(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += (text.empty() ? "[" : ", ") + yaml_text(value);
  return text.empty() ? "" : text + "]";
}
}  // namespace internal

/// Value of a configuration: a map, a list or a scalar, with its path and its place in the file.
///
/// A view; the ConfigDocument must outlive it. Not thread-safe, as reading marks keys as known.
///
/// There are two ways to read, which can be mixed:
///
/// - `read(key, variable)` and `require(key, variable)` never throw. They record a wrong value, and
///    the variable keeps its default. The next `finish()` throws all recorded problems at once. Use
///    the variables only after `finish()`.
/// - `at(key)`, `as<T>()`, `items()`, `entries()`, `fail()` throw Error(kInvalidConfig) at once.
///
/// Every message starts with "FILE:LINE:COLUMN: " or "command line: --set ...: ".
///
/// Readers describe each key by a KeyDescription. `weft keys` prints it with the reader's type,
/// bounds and default. For this the reader runs on an outline (see ConfigDocument::outline()),
/// which records the keys read. In an outline, values are absent, maps have one key of each kind,
/// lists have one element, and finish() of a section ends its reader.
class ConfigNode {
 public:
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind() const;
  /// Returns "pipeline.stages[1].mesh"; "" for the document itself.
  const std::string& path() const;
  /// Returns "cluster.yaml:12:3", or "command line: --set training.steps=3".
  std::string where() const;

  /// Returns true if the map has a value for `key`. Marks the key as known.
  bool has(std::string_view key) const { return find(key).has_value(); }
  /// Returns the value of `key`; nullopt if it is absent or empty. Throws if this is not a map.
  std::optional<ConfigNode> find(std::string_view key) const;
  std::optional<ConfigNode> find(std::string_view key, const KeyDescription& text) const;
  /// Returns the value of `key`. Throws if there is none.
  ConfigNode at(std::string_view key) const;
  ConfigNode at(std::string_view key, const KeyDescription& text) const;
  /// Returns true for a node of an outline. Readers should then skip checks of values, which are
  /// absent.
  bool is_outline() const;
  /// Leaves `key` to another reader: finish() ignores it and everything below.
  void exclude_key(std::string_view key) const;

  /// Reads `key` into `out` if it is present. T is bool, an integer, a floating-point number,
  /// std::string, Nanoseconds ("5s", "250ms"), std::optional of one of these, or std::vector of one
  /// of these. Returns true if the key is present and valid.
  template <typename T>
  bool read(std::string_view key, T& out, const KeyDescription& text,
            Range<std::type_identity_t<T>> range = {}) const {
    return read_value(key, Presence::kOptional, out, text, range);
  }
  /// Reads a key without a description. For documents whose keys `weft keys` does not list.
  template <typename T>
  bool read(std::string_view key, T& out) const {
    return read_value(key, Presence::kOptional, out, "", {});
  }
  template <typename T>
  requires(!std::same_as<T, std::string>) bool read(std::string_view key, T& out,
                                                    Range<std::type_identity_t<T>> range) const {
    return read_value(key, Presence::kOptional, out, "", range);
  }
  template <typename T>
  bool require(std::string_view key, T& out, const KeyDescription& text,
               Range<std::type_identity_t<T>> range = {}) const {
    return read_value(key, Presence::kRequired, out, text, range);
  }
  template <typename T>
  bool require(std::string_view key, T& out) const {
    return read_value(key, Presence::kRequired, out, "", {});
  }
  template <typename T>
  requires(!std::same_as<T, std::string>) bool require(std::string_view key, T& out,
                                                       Range<std::type_identity_t<T>> range) const {
    return read_value(key, Presence::kRequired, out, "", range);
  }
  template <typename E>
  bool read_enum(std::string_view key, E& out, const EnumNames<E>& names,
                 const KeyDescription& text = "") const {
    if (is_outline()) {
      ConfigKey& described = declare(key, text, Presence::kOptional);
      for (const auto& [name, value] : names) {
        described.choices.push_back(name);
        if (value == out) set_default(described, name, text);
      }
      describe_choices(described, text);
      return false;
    }
    return read_into(key, Presence::kOptional,
                     [&](const ConfigNode& node) { out = node.as_enum(names, text); });
  }
  /// Reads a number of bytes: "512B", "64KiB", "1.5GiB" (powers of 1024), "1MB" (powers of 1000).
  /// Only 0 needs no unit.
  bool read_bytes(std::string_view key, std::uint64_t& out, const KeyDescription& text,
                  Range<std::uint64_t> range = {}) const;
  bool read_bytes(std::string_view key, std::uint64_t& out, Range<std::uint64_t> range = {}) const {
    return read_bytes(key, out, "", range);
  }

  /// Reads a rate in bytes per second: "10gbit", "250mbit", "114MiB" (see parse_rate).
  bool read_rate(std::string_view key, double& out, const KeyDescription& text = "") const;

  template <typename T>
  T as(Range<std::type_identity_t<T>> range = {}) const;
  template <typename E>
  E as_enum(const EnumNames<E>& names, const KeyDescription& text = "") const {
    std::vector<std::string> spellings;
    for (const auto& [name, value] : names) spellings.push_back(name);
    return names[choice(spellings, text)].second;
  }
  /// Returns an absolute path. A relative path in a file is resolved against the file's folder, one
  /// in --set against the working directory. "~/" is the home folder.
  std::filesystem::path as_path() const;
  /// Returns as_path() of a small file whose content the caller reads. The run keeps a copy of the
  /// file.
  std::filesystem::path as_input_file() const;
  /// Returns true if a resolved run file (run.yaml) marks this value as an input file.
  bool names_input_file() const;
  std::uint64_t as_bytes(Range<std::uint64_t> range = {}) const;
  double as_rate() const;

  /// Returns the elements of a list, in order. Throws if this is not a list.
  std::vector<ConfigNode> items() const;
  /// Returns the keys and values of a map, in file order. Marks every key as known.
  std::vector<std::pair<std::string, ConfigNode>> entries() const;
  /// Returns entries() of a map whose keys are words of the user. `placeholder`, such as "NAME",
  /// replaces them in the outline.
  std::vector<std::pair<std::string, ConfigNode>> entries(std::string_view placeholder,
                                                          const KeyDescription& text) const;

  /// Records a problem with this value for finish() to throw: "FILE:LINE:COLUMN: <text>".
  void record_problem(std::string text) const;
  /// Records a problem at the place of one of this map's keys.
  void record_key_problem(std::string_view key, std::string text) const;
  [[noreturn]] void fail(std::string text) const;

  /// Throws Error(kInvalidConfig) with one line for each problem recorded in or below this value,
  /// including each unknown key, with the nearest known key.
  void finish() const;

 private:
  friend class ConfigDocument;
  enum class Presence { kOptional, kRequired };
  ConfigNode(internal::ConfigTree* tree, internal::ConfigValue* value)
      : tree_(tree), value_(value) {}

  template <typename T>
  bool read_value(std::string_view key, Presence presence, T& out, const KeyDescription& text,
                  const Range<T>& range) const {
    if (is_outline()) {
      ConfigKey& described = declare(key, text, presence);
      internal::describe_type<T>(described, range);
      if (presence == Presence::kOptional) set_default(described, internal::yaml_text(out), text);
      if (!text.type().empty()) described.type_text = text.type();
      return false;
    }
    return read_into(key, presence, [&](const ConfigNode& node) { out = node.as<T>(range); });
  }
  /// Records a key of the outline.
  ConfigKey& declare(std::string_view key, const KeyDescription& text, Presence presence) const;
  static void set_default(ConfigKey& key, const std::string& value, const KeyDescription& text);
  static void describe_choices(ConfigKey& key, const KeyDescription& text);
  /// Returns the outline's node of a key of this map, or of an element of this list ("[]").
  ConfigNode outline_of(std::string_view key) const;
  /// Returns the outline's record of this value.
  ConfigKey& described() const;
  template <typename F>
  bool read_into(std::string_view key, Presence presence, F&& convert) const {
    return guarded(key, [&] {
      const auto node =
          presence == Presence::kRequired ? std::optional<ConfigNode>(at(key)) : find(key);
      if (node) convert(*node);
      return node.has_value();
    });
  }
  template <typename F>
  bool guarded(std::string_view key, F&& read_value) const;
  void record_current_error(std::string_view key) const;

  std::int64_t as_integer(std::int64_t min, std::int64_t max) const;
  double as_number(double min, double max) const;
  bool as_bool() const;
  std::string as_string() const;
  Nanoseconds as_duration(Nanoseconds min, Nanoseconds max) const;
  std::size_t choice(const std::vector<std::string>& names, const KeyDescription& text) const;
  const internal::ConfigValue& scalar(std::string_view expected) const;
  [[noreturn]] void mismatch(std::string_view expected) const;

  internal::ConfigTree* tree_;
  internal::ConfigValue* value_;
};

template <typename F>
bool ConfigNode::guarded(std::string_view key, F&& read_value) const {
  try {
    return read_value();
  } catch (...) {
    record_current_error(key);
    return false;
  }
}

template <typename T>
T ConfigNode::as(Range<std::type_identity_t<T>> range) const {
  using VectorOf = typename internal::ConfigElement<T>::Vector;
  using OptionalOf = typename internal::ConfigElement<T>::Optional;
  if constexpr (std::same_as<T, bool>) {
    return as_bool();
  } else if constexpr (ConfigInteger<T>) {
    const auto [min, max] = internal::bounds_of<T>(range);
    return static_cast<T>(as_integer(min, max));
  } else if constexpr (std::floating_point<T>) {
    const auto [min, max] = internal::bounds_of<T>(range);
    return static_cast<T>(as_number(min, max));
  } else if constexpr (std::same_as<T, std::string>) {
    return as_string();
  } else if constexpr (std::same_as<T, Nanoseconds>) {
    return as_duration(range.min.value_or(Nanoseconds::zero()),
                       range.max.value_or(Nanoseconds::max()));
  } else if constexpr (!std::same_as<OptionalOf, void>) {
    return as<OptionalOf>(internal::inner_range<OptionalOf>(range));
  } else {
    static_assert(!std::same_as<VectorOf, void>, "a configuration has no values of this type");
    T list;
    for (const ConfigNode& item : items()) list.push_back(item.as<VectorOf>());
    return list;
  }
}

}  // namespace weft
