import type { SandboxId } from '@dormouse/contracts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { SecretServiceOptions } from './secret-service.ts'

/** What secrets need of a sandbox. */
export interface SecretUser {
  readonly id: SandboxId
  readonly row: SandboxRow
  /** The row that a change in progress has put in force. The change may still fail. */
  readonly effectiveRow: SandboxRow
  readonly isDeleted: boolean
  applyNetwork(): Promise<void>
  update(change: { secrets: readonly string[] }): Promise<unknown>
}

export interface SecretUsers {
  all(): Iterable<SecretUser>
  find(id: SandboxId): SecretUser | undefined
}

/** Looks up which sandboxes use a secret. Rows in memory are newer than those on disk. */
export function secretsInUse(
  sandboxes: SecretUsers,
): Pick<SecretServiceOptions, 'usedBy' | 'apply' | 'takeFrom'> {
  return {
    usedBy: (owner, name) =>
      [...sandboxes.all()].flatMap(({ id, row, effectiveRow }) => {
        const isLive = row.owner === owner && row.state !== 'deleting'
        return isLive && [row, effectiveRow].some(({ secrets }) => secrets.includes(name)) ? id : []
      }),
    apply: async (id) => {
      await sandboxes.find(id)?.applyNetwork()
    },
    takeFrom: async (id, name) => {
      const sandbox = sandboxes.find(id)
      if (sandbox === undefined || sandbox.isDeleted) return
      await sandbox.update({ secrets: sandbox.row.secrets.filter((other) => other !== name) })
    },
  }
}
