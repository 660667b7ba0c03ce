#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace weft::actors {

/// Arguments between Weft's processes, not for people: "--weft-role=device --agent 127.0.0.1:4000
/// --slot 3". Not thread-safe, as reading marks arguments.
class RoleArguments {
 public:
  RoleArguments() = default;
  /// Parses "--name value" and "--name=value"; `flags` have no value. Throws
  /// Error(kInvalidArgument) for anything else.
  RoleArguments(const std::vector<std::string>& arguments, const std::vector<std::string>& flags);

  /// Throws Error(kInvalidArgument), with the nearest name, for an argument that is not in `names`.
  void check_known(const std::vector<std::string>& names) const;
  bool has(const std::string& name) const { return find(name) != nullptr; }
  /// Returns the last value. Throws Error(kInvalidArgument) if it is missing.
  const std::string& get(const std::string& name) const;
  std::string get_or(const std::string& name, const std::string& otherwise) const;
  /// Returns a whole number. Throws Error(kInvalidArgument) if it is missing or none.
  std::uint64_t number(const std::string& name) const;
  /// Returns every value of an argument that may be repeated.
  std::vector<std::string> all(const std::string& name) const;
  /// Returns the arguments that no call has asked for.
  RoleArguments unread() const;

 private:
  /// Returns the values of an argument, and marks it as read; null if it is missing.
  const std::vector<std::string>* find(const std::string& name) const;

  std::map<std::string, std::vector<std::string>> values_;
  mutable std::set<std::string> read_;
};

/// Returns the value of --weft-role=ROLE, if it is the first argument.
std::optional<std::string> role_of(const std::vector<std::string>& arguments);

}  // namespace weft::actors
