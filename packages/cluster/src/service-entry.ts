import { z } from 'zod'
import type { EntryKind } from './directory.ts'

const entrySchema = z
  .object({
    /** The host that owns the service, by the lease `epoch`. */
    host: z.string(),
    epoch: z.int().positive(),
    /** Counts how often the service has changed its host. */
    generation: z.int().nonnegative(),
    owner: z.string(),
    name: z.string(),
    /** Its rows, in the words of the server. */
    service: z.unknown(),
    versions: z.array(z.unknown()),
    replicas: z.array(z.unknown()),
  })
  // Fields of a newer version stay: hosts of two versions work side by side during an upgrade.
  .loose()

/** Everything that another host needs to continue a service. */
export type ServiceEntry = z.output<typeof entrySchema>

export const SERVICE_ENTRIES: EntryKind<ServiceEntry> = { name: 'service', schema: entrySchema }
