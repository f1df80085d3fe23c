import type { Snapshot } from '@dormouse/engine'
import type { Manifest } from './manifest.ts'

/** What the engine's callers learn of a snapshot. */
export function describeSnapshot(manifest: Manifest): Snapshot {
  return {
    id: manifest.id,
    sandboxId: manifest.sandboxId,
    kind: manifest.kind,
    ...(manifest.parent !== undefined && { parent: manifest.parent }),
    template: manifest.template.name,
    createdAt: new Date(manifest.createdAt),
    limits: manifest.limits,
    volumes: manifest.volumes,
    bytes: manifest.bytes,
    ...(manifest.kind === 'full' &&
      manifest.deadline !== undefined && { deadline: new Date(manifest.deadline) }),
  }
}
