#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace weft::actors {

/// The arguments that Weft's processes give each other: "--weft-role=device --agent 127.0.0.1:4000
/// --slot 3". Not for people.
class RoleArguments {
 public:
  /// Every argument is "--name value" or "--name=value", except the flags listed. Throws
  /// Error(kInvalidArgument) otherwise.
  RoleArguments(const std::vector<std::string>& arguments, const std::vector<std::string>& flags);

  /// Throws Error(kInvalidArgument), with the nearest name, for one that is none of these.
  void check_known(const std::vector<std::string>& names) const;
  bool has(const std::string& name) const { return values_.contains(name); }
  /// Throws Error(kInvalidArgument) when it is missing.
  const std::string& get(const std::string& name) const;
  std::string get_or(const std::string& name, const std::string& otherwise) const;
  /// Throws Error(kInvalidArgument) unless it is a number.
  std::uint64_t number(const std::string& name) const;
  /// Every value of an argument that may be repeated.
  std::vector<std::string> all(const std::string& name) const;

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

/// The value of --weft-role=ROLE, if it is the first argument.
std::optional<std::string> role_of(const std::vector<std::string>& arguments);

}  // namespace weft::actors
