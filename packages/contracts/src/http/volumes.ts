import { z } from 'zod'
import { MAX_DISK_BYTES, MIN_DISK_BYTES } from '../limits.ts'
import { nameField, pageOf, pageQuery, sandboxIdField, textField, timestampField } from './fields.ts'

const sizeBytesField = z
  .int()
  .min(MIN_DISK_BYTES, `must be at least ${MIN_DISK_BYTES}, which is 16 MiB`)
  .max(MAX_DISK_BYTES)
  .describe(
    'How many bytes the volume may hold. With a `hard` limit, writes beyond it fail inside. With a `measured` one, sandboxes that can write to the volume are then put to standby without loss, and cannot wake before the size is raised.',
  )

export const createVolumeSchema = z
  .strictObject({
    name: nameField,
    sizeBytes: sizeBytesField
      .exactOptional()
      .describe('How many bytes the volume may hold. Default: the setting of the server, normally 10 GiB.'),
  })
  .meta({ id: 'CreateVolume', examples: [{ name: 'datasets', sizeBytes: 21_474_836_480 }] })

export const cloneVolumeSchema = z
  .strictObject({
    name: nameField.describe('The name of the new volume.'),
    readOnly: z
      .boolean()
      .default(false)
      .describe('Makes a snapshot: nothing can write to the new volume, and it is mounted read-only.'),
    sizeBytes: sizeBytesField.exactOptional().describe('Default: the size of the volume that is cloned.'),
  })
  .meta({ id: 'CloneVolume', examples: [{ name: 'datasets-v1', readOnly: true }] })

const shareAccessField = z
  .enum(['read', 'write'])
  .describe('`read`: its sandboxes mount the volume read-only. `write`: they may also write to it.')
export const shareVolumeSchema = z
  .strictObject({ access: shareAccessField })
  .meta({ id: 'ShareVolume', examples: [{ access: 'read' }] })

export const updateVolumeSchema = z
  .strictObject({ sizeBytes: sizeBytesField })
  .meta({ id: 'UpdateVolume', examples: [{ sizeBytes: 42_949_672_960 }] })

export const volumeSchema = z
  .strictObject({
    name: nameField,
    createdAt: timestampField,
    bytes: z
      .int()
      .optional()
      .describe('Bytes on disk at the last measurement. Reading a single volume measures it.'),
    files: z.int().optional().describe('Files, directories and links at the last measurement.'),
    sizeBytes: z.int().describe('How many bytes the volume may hold.'),
    sizeLimit: z
      .enum(['hard', 'measured'])
      .describe(
        '`hard`: the file system of the server has project quotas, and refuses writes beyond `sizeBytes`. `measured`: the server measures, and acts seconds later.',
      ),
    usedBy: z.array(sandboxIdField).readonly().describe('Sandboxes that mount the volume.'),
    access: z
      .enum(['own', 'read', 'write'])
      .describe('`own`: it belongs to this key. Otherwise another key shares it.'),
    readOnly: z.boolean().describe('Nothing can write to it: it is a snapshot of another volume.'),
    clonedFrom: z.string().optional().describe('The volume that it was cloned from, by name.'),
    oneMoment: z
      .boolean()
      .optional()
      .describe(
        'In the answer to a clone: whether nothing changed in the volume while it was copied, so that the clone shows one moment of it. Sandboxes that can write to it are stopped for up to two seconds.',
      ),
    sharedWith: z
      .array(z.strictObject({ keyId: z.string(), name: z.string(), access: shareAccessField }))
      .readonly()
      .describe('Keys that may use it too. Empty for those keys.'),
  })
  .meta({
    id: 'Volume',
    examples: [
      {
        name: 'datasets',
        createdAt: '2026-01-01T12:00:00.000Z',
        bytes: 4096,
        files: 1,
        sizeBytes: 10_737_418_240,
        sizeLimit: 'measured',
        usedBy: ['sb-k3v9x2m4p7q8r5t6'],
        access: 'own',
        readOnly: false,
        sharedWith: [],
      },
    ],
  })

export const volumePageSchema = pageOf(volumeSchema).meta({ id: 'VolumePage' })
export const listVolumesQuery = z.strictObject(pageQuery)
export const volumeParams = z.strictObject({ name: nameField })
export const volumeShareParams = volumeParams.extend({
  key: textField({ maxBytes: 200, minLength: 1 }).describe('Id or name of the key.'),
})

export type CreateVolumeBody = z.input<typeof createVolumeSchema>
export type CloneVolumeBody = z.input<typeof cloneVolumeSchema>
export type UpdateVolumeBody = z.input<typeof updateVolumeSchema>
export type VolumeAnswer = z.output<typeof volumeSchema>
export type VolumePageAnswer = z.output<typeof volumePageSchema>
