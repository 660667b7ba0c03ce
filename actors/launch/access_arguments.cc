#include "actors/launch/access_arguments.h"

#include <fmt/format.h>
#include <unistd.h>

#include "actors/supervision/process_launcher.h"
#include "core/base/error.h"

namespace weft::actors {

std::vector<std::string> to_arguments(const ConnectionSecurity& protection) {
  std::vector<std::string> arguments;
  if (protection.insecure) arguments.push_back(fmt::format("--{}", kInsecureFlag));
  if (!protection.certificate.empty())
    arguments.insert(arguments.end(),
                     {"--certificate", protection.certificate, "--certificate-named",
                      protection.given_by_user ? "1" : "0"});
  return arguments;
}

ConnectionSecurity connection_security_of(const RoleArguments& arguments) {
  ConnectionSecurity protection;
  protection.insecure = arguments.has(kInsecureFlag);
  protection.certificate = arguments.get_or("certificate", "");
  protection.given_by_user = arguments.get_or("certificate-named", "0") == "1";
  return protection;
}

std::vector<std::string> token_arguments() {
  return {"--token-fd", std::to_string(kSecretDescriptor)};
}

Secret inherited_token(const RoleArguments& arguments) {
  const int descriptor = arguments.number("token-fd");
  Secret::Bytes bytes{};
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t count = ::read(descriptor, bytes.data() + got, bytes.size() - got);
    if (count <= 0) break;
    got += count;
  }
  ::close(descriptor);
  if (got != bytes.size())
    throw_error(ErrorCode::kInvalidArgument,
                "--token-fd {}: there is no token to read; this role is for processes that Weft "
                "starts itself",
                descriptor);
  return Secret(bytes);
}

}  // namespace weft::actors
