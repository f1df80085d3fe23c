import { readFile } from 'node:fs/promises'
import { DormouseError, ISOLATIONS, parseInput } from '@dormouse/contracts'
import { z } from 'zod'

const LIST_MAX_ENTRIES = 500
const COMMAND_MAX_CHARACTERS = 65_536

const suite = z.string().regex(/^[a-z][a-z0-9-]{0,39}$/, 'must be the name of a Debian suite, like "trixie"')
const debianPackage = z
  .string()
  .regex(/^[a-z0-9][a-z0-9.+-]+(=[A-Za-z0-9.+:~-]+)?$/, 'must be a Debian package, maybe with "=version"')
const command = z.string().trim().min(1, 'must not be empty').max(COMMAND_MAX_CHARACTERS)
const pythonModule = z
  .string()
  .regex(/^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$/, 'must be the name of a Python module')

export const templateNameSchema = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,39}$/, 'must be 1-40 of a-z, 0-9 and "-", starting with a letter')

/**
 * What root of the host builds: only `./dormouse template build` and set-up accept one. Templates described by an API
 * key are built in a sandbox.
 */
export const templateDescriptionSchema = z.strictObject({
  name: templateNameSchema,
  description: z.string().max(1_000).optional(),
  suite,
  packages: z.array(debianPackage).max(LIST_MAX_ENTRIES).default([]),
  /** Run by bash in a chroot after the packages are installed, as root of the host and with its network. */
  commands: z.array(command).max(LIST_MAX_ENTRIES).default([]),
  /** Modules that are already imported in a new sandbox. */
  preload: z.array(pythonModule).max(LIST_MAX_ENTRIES).default([]),
  /** Of sandboxes that do not say which they want; otherwise the server's default. */
  isolation: z.enum(ISOLATIONS).optional(),
})

export type TemplateDescription = z.output<typeof templateDescriptionSchema>

export function parseTemplateDescription(value: unknown): TemplateDescription {
  return parseInput(templateDescriptionSchema, value, 'template description')
}

export async function readTemplateDescription(file: string): Promise<TemplateDescription> {
  const text = await readFile(file, 'utf8').catch((cause) => {
    throw new DormouseError(
      'invalid_argument',
      `The template description ${file} cannot be read: ${cause.message}`,
      {
        hint: 'Name a JSON file such as templates/python.json.',
        details: { field: 'file' },
        cause,
      },
    )
  })
  return parseTemplateDescription(parseJson(text, file))
}

function parseJson(text: string, file: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new DormouseError('invalid_argument', `${file} is not JSON: ${(cause as Error).message}`, {
      hint: 'Compare it with templates/python.json.',
      details: { field: 'file' },
      cause,
    })
  }
}
