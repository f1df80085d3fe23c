import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'
import type { FilesAccess } from '../../sandbox/sandbox-reader.ts'

/** Where to read files: inside, which wakes a sleeping sandbox, or wherever they are without waking it. */
export function filesOf(sandbox: SandboxHandle, wake: boolean): FilesAccess {
  return wake ? sandbox : sandbox.reader.files
}
