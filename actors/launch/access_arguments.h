#pragma once

#include <string>
#include <vector>

#include "actors/access/connection_security.h"
#include "actors/launch/role_arguments.h"
#include "core/base/secret.h"

namespace weft::actors {

// Token and connection security, as a process of Weft passes them to its children.

/// Flag among to_arguments(const ConnectionSecurity&); see RoleArguments.
inline constexpr const char* kInsecureFlag = "insecure";

std::vector<std::string> to_arguments(const ConnectionSecurity& protection);
/// Inverse of to_arguments().
ConnectionSecurity connection_security_of(const RoleArguments& arguments);

/// Returns the arguments for a child that receives the token.
std::vector<std::string> token_arguments();
/// Reads the token that the parent gave to this process, by `--token-fd N`. Called once; closes the
/// descriptor.
Secret inherited_token(const RoleArguments& arguments);

}  // namespace weft::actors
