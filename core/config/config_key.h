#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

/// What a reader says of a key, for `weft keys`: one line, and what the reader's type leaves open.
/// Borrows its texts, which are literals. A value.
///
///   node.read("steps", config.steps, KeyText("Optimizer steps of the run").unit("steps"));
class KeyText {
 public:
  KeyText(const char* line) : line_(line) {}  // NOLINT(google-explicit-constructor): a literal

  /// Of a count: "steps", "tokens". Sizes, durations and rates are written with their own.
  KeyText unit(std::string_view unit) &&;
  /// Of a value that the reader takes apart itself, as "share, such as 10%, or number". `weft keys`
  /// does not look into it.
  KeyText type(std::string_view type) &&;
  /// What else than the reader's type the value may be: "FILE.csv".
  KeyText also(std::string_view also) &&;
  /// The default, where the variable that is read into does not hold it.
  KeyText by_default(std::string_view value) &&;
  /// Required only together with another key, which the line names.
  KeyText conditional() &&;
  /// A word that people write where they mean another: "gpu" for "cuda".
  KeyText synonym(std::string_view word, std::string_view meant) &&;

  std::string_view line() const { return line_; }
  std::string_view unit() const { return unit_; }
  std::string_view type() const { return type_; }
  std::string_view also() const { return also_; }
  std::string_view by_default() const { return default_; }
  bool is_conditional() const { return conditional_; }
  /// What was meant by a word; empty if it is nobody's synonym.
  std::string_view meant_by(std::string_view word) const {
    return !word.empty() && word == synonym_.first ? synonym_.second : std::string_view();
  }

 private:
  std::string_view line_, unit_, type_, also_, default_;
  std::pair<std::string_view, std::string_view> synonym_;
  bool conditional_ = false;
};

/// A key that a reader takes, as `weft keys` prints it. A value.
struct ConfigKey {
  enum class Type : std::uint8_t {
    kUnknown,  ///< What the reader takes apart itself.
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
  /// "pipeline.stages[].mesh"; "meshes.NAME.shape.AXIS", where NAME and AXIS are the user's words.
  std::string path;
  Type type = Type::kUnknown;
  std::string type_text;             ///< "whole number of at least 1", "one of 1f1b, gpipe"
  std::optional<double> min, max;    ///< Of a number.
  std::vector<std::string> choices;  ///< Of a word out of a list; else empty.
  bool required = false;
  std::string default_text;  ///< As in YAML; empty: none.
  std::string unit;
  std::string line;        ///< Empty: the reader says nothing of it, which is a defect.
  bool also_text = false;  ///< A map may be a word instead.

  friend bool operator==(const ConfigKey&, const ConfigKey&) = default;
};

class ConfigDocument;

/// Every key that `read` asks for, sections in the order in which they are read. `read` is the
/// reader of run files itself, with a document that stands for all of them: see
/// ConfigDocument::outline(). Throws Error(kInternal) if `read` ends by an error.
std::vector<ConfigKey> keys_read_by(const std::function<void(const ConfigDocument&)>& read);

/// For people: two lines a key.
std::string keys_text(const std::vector<ConfigKey>& keys);
/// A list of objects: key, type, required, default, unit, choices, min, max, line.
std::string keys_json(const std::vector<ConfigKey>& keys);
/// A JSON schema (draft 2020-12) that editors check and complete run files with.
std::string keys_schema(const std::vector<ConfigKey>& keys, const std::string& title);

}  // namespace weft
