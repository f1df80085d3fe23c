import { checkCgroups } from './cgroup-checks.ts'
import type { Check } from './check.ts'
import { checkKernel } from './kernel-checks.ts'
import { checkPrivileges } from './privilege-checks.ts'
import { checkSetup } from './setup-checks.ts'
import { checkStorage } from './storage-checks.ts'

export interface HostReport {
  /** True when no check failed. */
  readonly canRunSandboxes: boolean
  readonly checks: readonly Check[]
}

export async function examineHost(dataDir: string): Promise<HostReport> {
  const groups = await Promise.all([
    checkKernel(),
    checkCgroups(),
    checkPrivileges(),
    checkStorage(dataDir),
    checkSetup(dataDir),
  ])
  const checks = groups.flat()
  return { canRunSandboxes: checks.every(({ status }) => status !== 'fail'), checks }
}
