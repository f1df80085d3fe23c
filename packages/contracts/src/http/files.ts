import { z } from 'zod'
import { booleanTextOr, integerTextOr, textField, timestampField } from './fields.ts'

const PATH_MAX_BYTES = 4096
const LIST_MAX_DEPTH = 64
/** A JSON response is built in memory. A listing in NDJSON has no bound. */
export const LIST_MAX_ENTRIES = 10_000

/** The sandbox resolves the path: it follows `..` and links with the rights of its user, and never leaves its root. */
export const pathField = textField({ maxBytes: PATH_MAX_BYTES, minLength: 1 })
  .describe('Absolute, or relative to the home directory of the user.')
  .meta({ examples: ['/root/data.csv', 'notes/today.md'] })

export const userField = z
  .string()
  .regex(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}\$?$/, 'is not the name of a user')
  .describe('A user inside the sandbox. Default: the default user of the sandbox.')

/** Octal text, because the number 644 is not the mode 0644. */
const modeField = z
  .string()
  .regex(/^0?[0-7]{3,4}$/, 'must be octal digits, such as 0644')
  .transform((text) => Number.parseInt(text, 8))
  .describe('Permissions in octal, such as `0644`.')

const fileTypeField = z.enum(['file', 'directory', 'symlink', 'fifo', 'socket', 'device'])

export const fileStatSchema = z
  .strictObject({
    path: z.string(),
    name: z.string(),
    type: fileTypeField,
    sizeBytes: z.int(),
    mode: z.string().describe('Permissions in octal.'),
    uid: z.int(),
    gid: z.int(),
    user: z.string(),
    group: z.string(),
    modifiedAt: timestampField,
    target: z.string().optional().describe('The target of a symbolic link.'),
  })
  .meta({
    id: 'FileStat',
    examples: [
      {
        path: '/root/data.csv',
        name: 'data.csv',
        type: 'file',
        sizeBytes: 1024,
        mode: '0644',
        uid: 0,
        gid: 0,
        user: 'root',
        group: 'root',
        modifiedAt: '2026-01-01T12:00:00.000Z',
      },
    ],
  })

export const fileListSchema = z
  .strictObject({ items: z.array(fileStatSchema).readonly() })
  .meta({ id: 'FileList' })

/** `ready` comes first. `overflow`: changes in or below `path` were lost, so list it again. */
export const fileChangeSchema = z
  .discriminatedUnion('type', [
    z.strictObject({
      type: z.enum(['ready', 'created', 'modified', 'deleted', 'overflow']),
      path: z.string(),
    }),
    z.strictObject({ type: z.literal('moved'), path: z.string(), from: z.string() }),
  ])
  .meta({ id: 'FileChange', examples: [{ type: 'created', path: '/root/data.csv' }] })

export const fileQuery = z.strictObject({ path: pathField, user: userField.exactOptional() })

const wakeField = booleanTextOr(true).describe(
  '`false`: do not wake a sleeping sandbox, but read its snapshot: as root, without volumes, and relative paths start at the home of `user`, of root by default.',
)

export const readFileQuery = fileQuery.extend({ wake: wakeField })

export const writeFileQuery = fileQuery.extend({
  mode: modeField.exactOptional(),
  parents: booleanTextOr(false).describe('Create missing parent directories.'),
  append: booleanTextOr(false).describe('Append instead of replacing the file.'),
})

export const removeFileQuery = fileQuery.extend({
  recursive: booleanTextOr(false).describe('Also remove directories and their contents.'),
})

export const statFileQuery = fileQuery.extend({
  follow: booleanTextOr(true).describe('`false`: describe a symbolic link itself.'),
  wake: wakeField,
})

export const listFilesQuery = fileQuery.extend({
  depth: integerTextOr(1, { min: 1, max: LIST_MAX_DEPTH }).describe(
    'How many levels of directories to list.',
  ),
  wake: wakeField,
})

export const watchFilesQuery = fileQuery.extend({
  recursive: booleanTextOr(false).describe('Also watch everything below it.'),
})

const volumePathField = textField({ maxBytes: PATH_MAX_BYTES, minLength: 1 }).describe(
  'A path in the volume, whose root is `/`. Links lead nowhere but into the volume.',
)
export const volumeFileQuery = z.strictObject({ path: volumePathField })
export const listVolumeFilesQuery = listFilesQuery.omit({ user: true, wake: true }).extend({
  path: volumePathField.default('/'),
})
export const statVolumeFileQuery = statFileQuery.omit({ user: true, wake: true }).extend({
  path: volumePathField,
})
export const writeVolumeFileQuery = writeFileQuery.omit({ user: true }).extend({ path: volumePathField })
export const removeVolumeFileQuery = removeFileQuery.omit({ user: true }).extend({ path: volumePathField })

export const makeDirectorySchema = z
  .strictObject({
    path: pathField,
    parents: z
      .boolean()
      .exactOptional()
      .describe('Create missing parent directories, and accept an existing directory. Default: true.'),
    mode: modeField.exactOptional(),
    user: userField.exactOptional(),
  })
  .meta({ id: 'MakeDirectory', examples: [{ path: '/root/results/today' }] })

export const moveFileSchema = z
  .strictObject({
    from: pathField,
    to: pathField,
    overwrite: z.boolean().exactOptional().describe('Default: true.'),
    user: userField.exactOptional(),
  })
  .meta({ id: 'MoveFile', examples: [{ from: '/root/draft.md', to: '/root/final.md' }] })

export const makeVolumeDirectorySchema = makeDirectorySchema
  .omit({ user: true })
  .extend({ path: volumePathField })
  .meta({ id: 'MakeVolumeDirectory', examples: [{ path: '/results/today' }] })
export const moveVolumeFileSchema = moveFileSchema
  .omit({ user: true })
  .extend({ from: volumePathField, to: volumePathField })
  .meta({ id: 'MoveVolumeFile', examples: [{ from: '/draft.md', to: '/final.md' }] })

export type FileStatAnswer = z.output<typeof fileStatSchema>
export type FileListAnswer = z.output<typeof fileListSchema>
export type FileChangeAnswer = z.output<typeof fileChangeSchema>
export type MakeDirectoryBody = z.input<typeof makeDirectorySchema>
export type MoveFileBody = z.input<typeof moveFileSchema>
