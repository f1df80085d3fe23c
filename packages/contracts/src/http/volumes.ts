import { z } from 'zod'
import { MAX_DISK_BYTES, MIN_DISK_BYTES } from '../limits.ts'
import { nameField, pageOf, pageQuery, sandboxIdField, timestampField } from './fields.ts'

const sizeBytesField = z
  .int()
  .min(MIN_DISK_BYTES)
  .max(MAX_DISK_BYTES)
  .describe(
    'How many bytes the volume may hold. Above it, sandboxes that can write to the volume are put to standby without loss, and cannot wake before the size is raised.',
  )

export const createVolumeSchema = z
  .strictObject({
    name: nameField,
    sizeBytes: sizeBytesField
      .exactOptional()
      .describe('How many bytes the volume may hold. Default: the setting of the server, normally 10 GiB.'),
  })
  .meta({ id: 'CreateVolume', examples: [{ name: 'datasets', sizeBytes: 21_474_836_480 }] })

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
    usedBy: z.array(sandboxIdField).readonly().describe('Sandboxes that mount the volume.'),
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
        usedBy: ['sb-k3v9x2m4p7q8r5t6'],
      },
    ],
  })

export const volumePageSchema = pageOf(volumeSchema).meta({ id: 'VolumePage' })
export const listVolumesQuery = z.strictObject(pageQuery)
export const volumeParams = z.strictObject({ name: nameField })

export type CreateVolumeBody = z.input<typeof createVolumeSchema>
export type UpdateVolumeBody = z.input<typeof updateVolumeSchema>
export type VolumeAnswer = z.output<typeof volumeSchema>
export type VolumePageAnswer = z.output<typeof volumePageSchema>
