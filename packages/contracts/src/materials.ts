import { z } from 'zod'

/** Longer than any name or version of a package. */
const TEXT_MAX = 256

/** A package that a template was built from. */
export const materialSchema = z
  .strictObject({
    type: z
      .enum(['deb', 'wheel'])
      .describe('`deb`: a Debian package. `wheel`: a package that pip installed.'),
    name: z.string().max(TEXT_MAX),
    version: z.string().max(TEXT_MAX),
    architecture: z.string().max(TEXT_MAX).optional().describe('The architecture of a `deb`.'),
    sha256: z
      .string()
      .regex(/^[0-9a-f]{64}$/)
      .optional()
      .describe(
        'Checksum of the installed file, from the signed package lists or from pip. Absent if the package was installed by other means.',
      ),
  })
  .meta({
    id: 'Material',
    examples: [
      {
        type: 'deb',
        name: 'libc6',
        version: '2.41-12',
        architecture: 'amd64',
        sha256: '7bb2b9fe1b1e7bd3e3b2f2ea8a1d6d1f5f9c2b4a6f3a0e8d7c5b4a3928170615',
      },
    ],
  })

export type Material = z.output<typeof materialSchema>

/**
 * Every package of a template, in a fixed order, and a digest of the list: templates with equal digests have equal
 * packages.
 */
export interface Materials {
  readonly sha256: string
  readonly items: readonly Material[]
}
