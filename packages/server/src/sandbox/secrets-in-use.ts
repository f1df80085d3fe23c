import type { SandboxId } from '@dormouse/contracts'
import type { SecretServiceOptions } from '../secrets/secret-service.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'

/** Who has which secret is in the rows of sandboxes, in memory before it is on disk, and in what a change makes of them: it may fail. */
export function secretsInUse(
  registry: () => SandboxRegistry,
): Pick<SecretServiceOptions, 'usedBy' | 'apply' | 'takeFrom'> {
  return {
    usedBy: (owner, name) =>
      [...registry().all()].flatMap(({ body: { id, row, aim } }) => {
        const isLive = row.owner === owner && row.state !== 'deleting'
        return isLive && [row, aim].some(({ secrets }) => secrets.includes(name)) ? id : []
      }),
    apply: async (id: SandboxId) => {
      const body = registry().find(id)?.body
      if (body !== undefined) await body.parts.network.change(body)
    },
    takeFrom: async (id, name) => {
      const sandbox = registry().find(id)
      if (sandbox === undefined || sandbox.body.isDeleted) return
      const secrets = sandbox.body.row.secrets.filter((other) => other !== name)
      await sandbox.update({ secrets })
    },
  }
}
