import type { SecretServiceOptions } from '../secrets/secret-service.ts'
import type { RowsElsewhere } from './owner-quotas.ts'
import type { Sandboxes } from './sandboxes.ts'

/** Looks up which sandboxes use a secret, on any host. Rows in memory are newer than those on disk. */
export function secretsInUse(
  sandboxes: Sandboxes,
  elsewhere: RowsElsewhere,
): Pick<SecretServiceOptions, 'usedBy' | 'apply' | 'takeFrom'> {
  return {
    usedBy: (owner, name) => [
      ...[...sandboxes.all()].flatMap(({ id, row, effectiveRow }) => {
        const isLive = row.owner === owner && row.state !== 'deleting'
        // A change under way may succeed or fail: both rows count.
        return isLive && [row, effectiveRow].some(({ secrets }) => secrets.includes(name)) ? id : []
      }),
      ...[...elsewhere(owner)].flatMap(({ id, secrets }) => (secrets.includes(name) ? id : [])),
    ],
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
