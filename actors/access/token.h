#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "actors/message/ids.h"
#include "actors/net/address.h"
#include "core/base/clock.h"
#include "core/base/secret.h"
#include "core/log/log.h"

namespace weft::actors {

// Token of a cluster: its files, and how it reaches the processes of the cluster. It is never an
// argument, an environment variable or part of a log line.
//
//   STATE/token                          64 hexadecimal digits, mode 0600, written by the head
//   STATE/token.former                   replaced tokens, while members may still prove them
//   ~/.local/state/weft/tokens/PORT  ->  STATE/token, so that commands of the same user find it by
//                                        the head's port
//   descriptor 3                         children read it from there (ProcessSpec::secret)

/// Returns the token in a head's state folder. An existing one is kept, so that copies of it stay
/// valid; otherwise makes token and folder, for this user alone. Throws the errors of
/// read_token_file(), and Error(kFailedPrecondition) if nothing can be written.
Secret load_or_make_token(const std::filesystem::path& state_directory);
/// Writes `token` to the state folder, in place of any other.
void write_token(const std::filesystem::path& state_directory, const Secret& token);
/// Remedy if a file cannot be written to the state folder.
inline constexpr const char* kStateHint = "choose another folder with --state";
std::filesystem::path token_file_in(const std::filesystem::path& state_directory);

/// Returns the link by which commands of this user find the token, whether it exists or not; empty
/// if there is no folder for it.
std::filesystem::path linked_token_file(std::uint16_t port);

/// Token that was replaced, and the members of the cluster then.
struct FormerToken {
  Secret token;
  std::vector<ProcessId> members;
};
std::filesystem::path former_tokens_in(const std::filesystem::path& state_directory);
/// Adds a replaced token to the list. Throws Error(kFailedPrecondition), like reading the list.
void add_former_token(const std::filesystem::path& state_directory, const Secret& former,
                      const std::vector<ProcessId>& members);
std::vector<FormerToken> read_former_tokens(const std::filesystem::path& state_directory);
void forget_former_tokens(const std::filesystem::path& state_directory);

/// Reads a token. Throws Error(kFailedPrecondition) that says what to do, if the file is missing,
/// readable by others, or holds something else.
Secret read_token_file(const std::filesystem::path& file);

/// Returns the token of the head at that address: from `token_file`, or, if that is empty, from the
/// link by port of this user's head, waiting `within` for a head that is starting. Throws
/// Error(kFailedPrecondition) that says what to do, or kNotFound for an unknown host. `how_given`:
/// how the command takes the address.
Secret find_token(const Address& head, const std::filesystem::path& token_file,
                  Nanoseconds within = Nanoseconds::zero(),
                  std::string_view how_given = "it comes from --head HOST:PORT or WEFT_HEAD");

/// Link by which other commands of this user find the token; removed by the destructor. Without a
/// place for links, logs a warning.
class TokenLink final {
 public:
  TokenLink(std::uint16_t port, const std::filesystem::path& token_file, const Log& log);
  ~TokenLink();
  TokenLink(const TokenLink&) = delete;
  TokenLink& operator=(const TokenLink&) = delete;

  /// Removes the link of a head that could not do so itself.
  static void remove(std::uint16_t port, const std::filesystem::path& token_file);

 private:
  const std::uint16_t port_;
  const std::filesystem::path token_file_;
};

}  // namespace weft::actors
