import { z } from 'zod'

const strings = z.array(z.string()).nullish()

/** The parts of an OCI or docker image configuration that matter here. */
export const imageConfigSchema = z.looseObject({
  architecture: z.string().optional(),
  os: z.string().optional(),
  config: z
    .looseObject({
      Env: strings,
      WorkingDir: z.string().nullish(),
      User: z.string().nullish(),
      Entrypoint: strings,
      Cmd: strings,
      ExposedPorts: z.record(z.string(), z.unknown()).nullish(),
      Shell: strings,
      Healthcheck: z.looseObject({ Test: strings }).nullish(),
    })
    .nullish(),
  rootfs: z.looseObject({ diff_ids: z.array(z.string().regex(/^sha256:[0-9a-f]{64}$/)) }),
})

const descriptor = z.looseObject({
  mediaType: z.string().optional(),
  digest: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  size: z.int().nonnegative(),
})

export const imageManifestSchema = z.looseObject({
  config: descriptor,
  layers: z.array(descriptor),
})

/** Of an image for several platforms, or the index of an OCI layout. */
export const imageListSchema = z.looseObject({
  manifests: z.array(
    descriptor.extend({
      platform: z
        .looseObject({
          architecture: z.string().optional(),
          os: z.string().optional(),
          variant: z.string().optional(),
        })
        .nullish(),
    }),
  ),
})

export type ImageConfigFile = z.output<typeof imageConfigSchema>
export type ImageManifest = z.output<typeof imageManifestSchema>
