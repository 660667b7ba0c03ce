#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

/// Description of a key for `weft keys`: a one-line summary, plus details that the reader's type
/// lacks. Borrows its texts, which are literals.
///
///   node.read("steps", config.steps, KeyDescription("Optimizer steps of the run").unit("steps"));
class KeyDescription {
 public:
  KeyDescription(const char* summary)
      : summary_(summary) {}  // NOLINT(google-explicit-constructor): a literal

  /// Sets the unit of a count: "steps", "tokens". Sizes, durations and rates have their own
  /// notation.
  KeyDescription unit(std::string_view unit) &&;
  /// Sets the type of a value that the reader parses itself, as "share, such as 10%, or number".
  /// `weft keys` does not list keys inside it.
  KeyDescription type(std::string_view type) &&;
  /// Sets another permitted kind of value besides the reader's type: "FILE.csv".
  KeyDescription alternative(std::string_view alternative) &&;
  /// Sets the default if the variable passed to the reader does not contain it.
  KeyDescription by_default(std::string_view value) &&;
  /// Marks a key that is required only together with another key, which the summary names.
  KeyDescription conditional() &&;
  /// Sets a common wrong word and its replacement: "gpu" for "cuda".
  KeyDescription synonym(std::string_view word, std::string_view meant) &&;

  std::string_view summary() const { return summary_; }
  std::string_view unit() const { return unit_; }
  std::string_view type() const { return type_; }
  std::string_view alternative() const { return alternative_; }
  std::string_view by_default() const { return default_; }
  bool is_conditional() const { return conditional_; }
  /// Returns the replacement of a synonym; empty for other words.
  std::string_view synonym_of(std::string_view word) const {
    return !word.empty() && word == synonym_.first ? synonym_.second : std::string_view();
  }

 private:
  std::string_view summary_, unit_, type_, alternative_, default_;
  std::pair<std::string_view, std::string_view> synonym_;
  bool conditional_ = false;
};

/// Key of a run file, as printed by `weft keys`.
struct ConfigKey {
  enum class Type : std::uint8_t {
    kUnknown,  ///< Value that the reader parses itself.
    kMap,
    kList,
    kFlag,
    kInteger,
    kNumber,
    kText,
    kDuration,
    kBytes,
    kRate,
    kPath
  };
  /// "pipeline.stages[].mesh"; "meshes.NAME.shape.AXIS", where NAME and AXIS are words of the user.
  std::string path;
  Type type = Type::kUnknown;
  std::string type_text;           ///< "whole number of at least 1", "one of 1f1b, gpipe"
  std::optional<double> min, max;  ///< Bounds of a number.
  /// Permitted words, if the value is one of a list; else empty.
  std::vector<std::string> choices;
  bool required = false;
  std::string default_text;  ///< Default as YAML; empty: none.
  std::string unit;
  std::string summary;        ///< One-line description. An empty one is a defect of the reader.
  bool accepts_text = false;  ///< True if a word may replace the map.

  friend bool operator==(const ConfigKey&, const ConfigKey&) = default;
};

class ConfigDocument;

/// Returns every key that `read` reads, sections in reading order. `read` is the real reader of run
/// files; it is called with ConfigDocument::outline(). Throws Error(kInternal) if `read` throws.
std::vector<ConfigKey> keys_read_by(const std::function<void(const ConfigDocument&)>& read);

/// Returns the keys as text for users, two lines a key.
std::string keys_text(const std::vector<ConfigKey>& keys);
/// Returns a JSON list of objects: key, type, required, default, unit, choices, min, max, line.
std::string keys_json(const std::vector<ConfigKey>& keys);
/// Returns a JSON schema (draft 2020-12) with which editors check and complete run files.
std::string keys_schema(const std::vector<ConfigKey>& keys, const std::string& title);

}  // namespace weft
