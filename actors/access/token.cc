#include "actors/access/token.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <optional>
#include <sstream>

#include "actors/access/user_state.h"
#include "actors/link/compatibility.h"
#include "core/base/announced_wait.h"
#include "core/base/error.h"
#include "core/base/private_file.h"

namespace weft::actors {
namespace {

constexpr int kLookForTokenEveryMs = 20;

std::filesystem::path link_of(std::uint16_t port) {
  return user_state_directory() / "tokens" / std::to_string(port);
}

/// Returns the file's text, or nullopt if there is no file.
std::optional<std::string> read_token_text(const std::filesystem::path& path) {
  return read_private_file(
      path, "token file", kTokenHint,
      "so others may have read the token: run chmod 600 on it, and replace the token (weft token "
      "rotate)");
}

Secret parse_token(const std::filesystem::path& path, std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  try {
    return Secret::parse(text);
  } catch (const Error& error) {
    throw_error(ErrorCode::kFailedPrecondition, "the token file {} does not hold a token: {}; {}",
                path.string(), error.message(), kTokenHint);
  }
}

}  // namespace

std::filesystem::path linked_token_file(std::uint16_t port) {
  try {
    return link_of(port);
  } catch (const Error&) {
    return "";  // no folder for links, no link
  }
}

std::filesystem::path token_file_in(const std::filesystem::path& state_directory) {
  return std::filesystem::absolute(state_directory / "token").lexically_normal();
}

std::filesystem::path former_tokens_in(const std::filesystem::path& state_directory) {
  return token_file_in(state_directory).string() + ".former";
}

void write_token(const std::filesystem::path& state_directory, const Secret& token) {
  create_private_folder(std::filesystem::absolute(state_directory).lexically_normal());
  const std::filesystem::path path = token_file_in(state_directory);
  write_private_file(path, token.hexadecimal() + "\n", "token", kStateHint);
}

void add_former_token(const std::filesystem::path& state_directory, const Secret& former,
                      const std::vector<ProcessId>& members) {
  const std::filesystem::path path = former_tokens_in(state_directory);
  std::string text = read_token_text(path).value_or("") + former.hexadecimal();
  for (const ProcessId member : members) text += fmt::format(" {:016x}", member.value());
  write_private_file(path, text + "\n", "token", kStateHint);
}

std::vector<FormerToken> read_former_tokens(const std::filesystem::path& state_directory) {
  const std::filesystem::path path = former_tokens_in(state_directory);
  std::vector<FormerToken> found;
  std::istringstream lines(read_token_text(path).value_or(""));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string token;
    words >> token;
    FormerToken former{parse_token(path, token), {}};
    std::uint64_t member = 0;
    while (words >> std::hex >> member) former.members.emplace_back(member);
    found.push_back(std::move(former));
  }
  return found;
}

void forget_former_tokens(const std::filesystem::path& state_directory) {
  ::unlink(former_tokens_in(state_directory).c_str());
}

Secret load_or_make_token(const std::filesystem::path& state_directory) {
  const std::filesystem::path path = token_file_in(state_directory);
  if (auto text = read_token_text(path)) return parse_token(path, std::move(*text));
  const Secret token = Secret::random();
  write_token(state_directory, token);
  return token;
}

Secret read_token_file(const std::filesystem::path& file) {
  if (auto text = read_token_text(file)) return parse_token(file, std::move(*text));
  throw_error(ErrorCode::kFailedPrecondition, "there is no token file {}; {}", file.string(),
              kTokenHint);
}

Secret find_token(const Address& head, const std::filesystem::path& token_file, Nanoseconds within,
                  std::string_view how_given) {
  if (!token_file.empty()) return read_token_file(token_file);
  const std::filesystem::path link = link_of(head.port);
  const SteadyClock clock;
  const TimePoint give_up = clock.now() + within;
  const AnnouncedWait announced(
      fmt::format("the token of a head at {}, which starts with it", to_string(head)), within);
  while (true) {
    if (auto text = read_token_text(link)) return parse_token(link, std::move(*text));
    if (clock.now() >= give_up) break;
    // polls, as the link's folder may not exist yet
    ::poll(nullptr, 0, kLookForTokenEveryMs);
  }
  if (!host_resolves(head.host))
    throw_error(ErrorCode::kNotFound, "there is no host of the name '{}'", head.host);
  throw_error(ErrorCode::kFailedPrecondition,
              "no token found for the head at {}: {} does not exist. Check the address ({}). Start "
              "a head with: weft head. For a head of another user or machine: {}",
              to_string(head), link.string(), how_given, kTokenHint);
}

TokenLink::TokenLink(std::uint16_t port, const std::filesystem::path& token_file, const Log& log)
    : port_(port), token_file_(token_file) {
  try {
    const std::filesystem::path link = link_of(port);
    create_private_folder(std::filesystem::absolute(link.parent_path()).lexically_normal());
    const std::filesystem::path part = fmt::format("{}.{}", link.string(), ::getpid());
    ::unlink(part.c_str());
    if (::symlink(token_file.c_str(), part.c_str()) != 0 ||
        ::rename(part.c_str(), link.c_str()) != 0)
      throw_error(ErrorCode::kFailedPrecondition, "cannot make the link {}: {}", link.string(),
                  ::strerror(errno));
  } catch (const Error& error) {
    log.warning("{}; commands will need --token-file {}", error.message(), token_file.string());
  }
}

TokenLink::~TokenLink() { remove(port_, token_file_); }

void TokenLink::remove(std::uint16_t port, const std::filesystem::path& token_file) {
  try {
    const std::filesystem::path link = link_of(port);
    std::error_code failed;
    if (std::filesystem::read_symlink(link, failed) == token_file && !failed)
      ::unlink(link.c_str());
  } catch (const Error&) {
    // No folder for links, no link.
  }
}

}  // namespace weft::actors
