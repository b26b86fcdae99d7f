// What a program gives up that parses files of strangers.
#pragma once

namespace trainer {

/// From now on, this process and its later threads can start no program or process, open no socket, reach no other
/// process, and gain no privilege: such system calls fail with EPERM. There is no core file, which would contain the
/// user's data. To be called before threads start. Returns false where the kernel can't filter system calls.
bool confine();

}  // namespace trainer
