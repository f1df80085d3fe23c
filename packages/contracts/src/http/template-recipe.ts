import { z } from 'zod'
import { textField } from './fields.ts'
import { envField } from './sandboxes.ts'

const COMMAND_MAX_BYTES = 64 * 1024
const DOCKERFILE_MAX_BYTES = 256 * 1024
const PATH_MAX_BYTES = 4096
const SOURCES_MAX = 100
/** Generous for a server that loads a model. */
const READY_TIMEOUT_MAX_MS = 3_600_000

const uploadIdField = z.string().regex(/^up-[2-9a-km-np-z]{16}$/, 'is not the id of an upload')
const path = textField({ maxBytes: PATH_MAX_BYTES, minLength: 1 })
const userField = textField({ maxBytes: 100, minLength: 1 })

/** What a build does after its base, in the words of a Dockerfile. */
const templateStepSchema = z
  .union([
    z.strictObject({
      run: textField({ maxBytes: COMMAND_MAX_BYTES, minLength: 1 }).describe('For `/bin/sh -c`.'),
    }),
    z.strictObject({
      copy: z.array(path).min(1).max(SOURCES_MAX).describe('Paths in the context. May have wildcards.'),
      to: path,
      chown: userField.exactOptional(),
      chmod: z
        .string()
        .regex(/^[0-7]{3,4}$/, 'must be an octal mode')
        .exactOptional(),
      context: uploadIdField
        .exactOptional()
        .describe('The upload to copy from. Default: the context of the build.'),
    }),
    z.strictObject({ env: envField }),
    z.strictObject({ workdir: path }),
    z.strictObject({ user: userField }),
    z.strictObject({
      shell: z
        .array(textField({ maxBytes: PATH_MAX_BYTES, minLength: 1 }))
        .min(1)
        .max(10)
        .describe('The program and its arguments that `run` steps after this one get their command with.'),
    }),
    z.strictObject({
      fresh: z.literal(true).describe('Steps after this one run again, even if their results are cached.'),
    }),
  ])
  .meta({ id: 'TemplateStep' })

export const templateReadySchema = z
  .strictObject({
    port: z.int().min(1).max(65_535).exactOptional().describe('A process listens at this port.'),
    command: textField({ maxBytes: COMMAND_MAX_BYTES, minLength: 1 })
      .exactOptional()
      .describe('This command ends with 0. It is run again until it does.'),
    log: textField({ maxBytes: 1000, minLength: 1 })
      .exactOptional()
      .describe('The output of `start` contains this text.'),
    timeoutMs: z.int().min(100).max(READY_TIMEOUT_MAX_MS).exactOptional().describe('Default: one minute.'),
  })
  .refine(({ port, command, log }) => [port, command, log].filter((one) => one !== undefined).length === 1, {
    error: 'must have exactly one of `port`, `command` and `log`',
  })
  .meta({ id: 'TemplateReady' })

const registryLoginSchema = z.strictObject({
  username: textField({ maxBytes: 500, minLength: 1 }),
  password: textField({ maxBytes: 8192, minLength: 1 }),
  registry: z
    .string()
    .max(300)
    .regex(/^(?:[A-Za-z0-9.-]+|\[[0-9a-f:]+\])(?::\d{1,5})?$/, 'is not the name of a registry')
    .exactOptional()
    .describe('As images name it, with its port. Default: the registry of the build, if there is only one.'),
})

const registryAuthSchema = z.union([registryLoginSchema, z.array(registryLoginSchema).min(1).max(20)])

export const recipeFields = {
  image: textField({ maxBytes: 500, minLength: 1 })
    .exactOptional()
    .describe(
      'The container image to build on: `node:24`, `registry.example.com/team/web@sha256:…`, or `upload:ID` for an uploaded archive. With the scope `admin` also a path on the host: `oci:/directory`, `oci-archive:/file`, `docker-archive:/file`.',
    ),
  registryAuth: registryAuthSchema
    .exactOptional()
    .describe(
      'A login, or one for each registry. Only that registry gets it. Not stored. Refused if it is not clear which registry it is for.',
    ),
  dockerfile: textField({ maxBytes: DOCKERFILE_MAX_BYTES, minLength: 1 })
    .exactOptional()
    .describe('The text of a Dockerfile. `FROM template:NAME` builds on a template.'),
  context: uploadIdField
    .exactOptional()
    .describe('An uploaded tar archive with the files that `copy` steps and `COPY` name.'),
  buildArgs: envField.exactOptional().describe('Values for `ARG`.'),
  target: textField({ maxBytes: 200, minLength: 1 })
    .exactOptional()
    .describe('The stage to build. Default: the last.'),
  steps: z.array(templateStepSchema).max(500).exactOptional().describe('Steps after the base, in order.'),
  start: textField({ maxBytes: COMMAND_MAX_BYTES, minLength: 1 })
    .exactOptional()
    .describe(
      'A command that runs in every new sandbox: it is started once, and its processes are part of the template. It takes the place of ENTRYPOINT and CMD of the image, which are the default if `ready` is given or the image has a HEALTHCHECK.',
    ),
  ready: templateReadySchema
    .exactOptional()
    .describe(
      'When the started command is ready. Default: when the HEALTHCHECK of the image succeeds, or after two seconds.',
    ),
}

export type TemplateStep = z.output<typeof templateStepSchema>
export type RegistryAuth = z.output<typeof registryAuthSchema>
export type TemplateReady = z.output<typeof templateReadySchema>
