#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "actors/launch/role_arguments.h"
#include "actors/message/ids.h"
#include "actors/net/address.h"
#include "core/base/clock.h"
#include "core/base/secret.h"
#include "core/log/log.h"

namespace weft::actors {

// A cluster's token: where it lies, and how the processes of a cluster get it. It is never an
// argument, an environment variable or part of a log line.
//
//   STATE/token                          64 hexadecimal digits, mode 0600, written by the head
//   STATE/token.former                   what it has replaced, while members may still prove it
//   ~/.local/state/weft/tokens/PORT  ->  STATE/token, so that commands of the same user find it by
//                                        the head's port
//   descriptor 3                         children read it from there (ProcessSpec::secret)

/// $XDG_STATE_HOME/weft, or ~/.local/state/weft; for whom neither is an absolute path (a service, a
/// bare container) /tmp/weft-UID, which must be this user's alone: else throws
/// Error(kFailedPrecondition) that says what to set.
std::filesystem::path user_state_directory();
/// Where the hashes of binary_sha256() are kept for this user; empty where they cannot be.
std::filesystem::path hash_directory();

/// The token in a head's state folder. One that is there is kept, so that copies of it stay good;
/// else it is made, and so is the folder, for this user alone. Throws what read_token_file()
/// throws, and Error(kFailedPrecondition) where nothing can be written.
Secret load_or_make_token(const std::filesystem::path& state_directory);
/// Puts `token` there in place of any other.
void write_token(const std::filesystem::path& state_directory, const Secret& token);
std::filesystem::path token_file_in(const std::filesystem::path& state_directory);

/// By which commands of this user find it, whether it is there or not; empty where there is no
/// place for it.
std::filesystem::path linked_token_file(std::uint16_t port);

/// A token that was replaced, and who was a member of the cluster then.
struct FormerToken {
  Secret token;
  std::vector<ProcessId> members;
};
std::filesystem::path former_tokens_in(const std::filesystem::path& state_directory);
/// Throw Error(kFailedPrecondition).
void add_former_token(const std::filesystem::path& state_directory, const Secret& former,
                      const std::vector<ProcessId>& members);
std::vector<FormerToken> read_former_tokens(const std::filesystem::path& state_directory);
void forget_former_tokens(const std::filesystem::path& state_directory);
/// Makes a new token for a head that does not run; returns how many processes the next head takes
/// the former one from. Throws Error(kFailedPrecondition) where a head runs, or there is no token.
std::size_t rotate_token_offline(const std::filesystem::path& state_directory);

/// Throws Error(kFailedPrecondition) that says what to do: there is none, others may read it, or it
/// holds something else.
Secret read_token_file(const std::filesystem::path& file);

/// The token of the head at that address: `token_file` if it is not empty, else what a head of this
/// user has linked by its port, waiting `within` for one that is just starting. Throws
/// Error(kFailedPrecondition) that says what to do. `how_given`: how the command takes the address.
Secret find_token(const Address& head, const std::filesystem::path& token_file,
                  Nanoseconds within = Nanoseconds::zero(),
                  std::string_view how_given = "it comes from --head HOST:PORT or WEFT_HEAD");

/// The token that the parent gave to this process, as `--token-fd N` says. Read once; the
/// descriptor is closed.
Secret inherited_token(const RoleArguments& arguments);
/// What a parent adds to the command of a child that it gives the token.
std::vector<std::string> token_arguments();

/// The link by which other commands of this user find the token; removed at the end. A user without
/// a home has none, and is told.
class TokenLink final {
 public:
  TokenLink(std::uint16_t port, const std::filesystem::path& token_file, const Log& log);
  ~TokenLink();
  TokenLink(const TokenLink&) = delete;
  TokenLink& operator=(const TokenLink&) = delete;

  /// Removes it for a head that could not do so itself.
  static void remove(std::uint16_t port, const std::filesystem::path& token_file);

 private:
  const std::uint16_t port_;
  const std::filesystem::path token_file_;
};

}  // namespace weft::actors
