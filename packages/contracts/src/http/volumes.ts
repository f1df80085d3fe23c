import { z } from 'zod'
import { nameField, pageOf, pageQuery, sandboxIdField, timestampField } from './fields.ts'

export const createVolumeSchema = z
  .strictObject({ name: nameField })
  .meta({ id: 'CreateVolume', examples: [{ name: 'datasets' }] })

export const volumeSchema = z
  .strictObject({
    name: nameField,
    createdAt: timestampField,
    bytes: z
      .int()
      .optional()
      .describe('What it takes on disk, as last measured: looking at one volume measures it.'),
    usedBy: z.array(sandboxIdField).readonly().describe('Sandboxes that mount it.'),
  })
  .meta({
    id: 'Volume',
    examples: [
      {
        name: 'datasets',
        createdAt: '2026-01-01T12:00:00.000Z',
        bytes: 4096,
        usedBy: ['sb-k3v9x2m4p7q8r5t6'],
      },
    ],
  })

export const volumePageSchema = pageOf(volumeSchema).meta({ id: 'VolumePage' })
export const listVolumesQuery = z.strictObject(pageQuery)
export const volumeParams = z.strictObject({ name: nameField })

export type CreateVolumeBody = z.input<typeof createVolumeSchema>
export type VolumeAnswer = z.output<typeof volumeSchema>
export type VolumePageAnswer = z.output<typeof volumePageSchema>
