import type { FileStat, Sandbox } from 'dormouse'
import { useEffect, useRef, useState } from 'preact/hooks'
import { CodeEditor, type EditorHandle } from '../notebook/code-editor.tsx'
import { confirmed } from '../parts/confirm.tsx'
import { Glyph } from '../parts/icons.tsx'
import { mayRun } from '../state/session.ts'
import { attempt, tell } from '../state/toasts.ts'
import { ago, bytes } from '../words.ts'
import { CsvTable } from './csv-table.tsx'
import { saveAs } from './save-as.ts'

interface FileViewProps {
  readonly sandbox: Sandbox
  /** A sleeping sandbox shows its snapshot, where nothing can be changed. */
  readonly isAwake: boolean
  readonly file: FileStat
  readonly isChanged: boolean
  readonly onDeleted: () => void
}

type Content =
  | { readonly kind: 'text' | 'csv'; readonly text: string }
  | { readonly kind: 'image'; readonly url: string }
  | { readonly kind: 'other'; readonly why: string }

const SHOWN_MAX_BYTES = 2_000_000
const IMAGE_TYPES: Record<string, string> = {
  ...{ png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp' },
  svg: 'image/svg+xml',
}

/** One file: a picture, a table, or text that can be changed. */
export function FileView({ sandbox, isAwake, file, isChanged, onDeleted }: FileViewProps) {
  const [content, setContent] = useState<Content>()
  const editor = useRef<EditorHandle>(null)
  useEffect(() => {
    let isOver = false
    void attempt(`Read ${file.name}`, async () => {
      const read = await readContent(sandbox, file, isAwake)
      if (!isOver) setContent(read)
    })
    return () => {
      isOver = true
    }
  }, [sandbox, file, isChanged, isAwake])
  const save = () =>
    void attempt('Save', async () => {
      await sandbox.files.write(file.path, editor.current?.text() ?? '')
      tell(`Saved ${file.name}`)
    })
  const download = () =>
    void attempt('Download', async () =>
      saveAs(file.name, await sandbox.files.readBytes(file.path, { wake: isAwake })),
    )
  const remove = async () => {
    if (!(await confirmed(`Delete ${file.name}?`, file.path, 'Delete'))) return
    if (await attempt('Delete', () => sandbox.files.remove(file.path))) onDeleted()
  }
  return (
    <>
      <header class="files-head">
        <strong class={isChanged ? 'changed' : undefined}>{file.name}</strong>
        <small>
          {bytes(file.sizeBytes)} · {ago(file.modifiedAt)}
        </small>
        <span class="spacer" />
        {content?.kind === 'text' && isAwake && mayRun() && (
          <button type="button" onClick={save}>
            <Glyph name="check" /> Save
          </button>
        )}
        <button type="button" onClick={download}>
          <Glyph name="down" /> Download
        </button>
        {mayRun() && isAwake && (
          <button
            type="button"
            class="danger"
            aria-label={`Delete ${file.name}`}
            onClick={() => void remove()}
          >
            <Glyph name="trash" />
          </button>
        )}
      </header>
      <Shown content={content} name={file.name} editor={editor} onSave={save} />
    </>
  )
}

interface ShownProps {
  readonly content: Content | undefined
  readonly name: string
  readonly editor: { current: EditorHandle | null }
  readonly onSave: () => void
}

function Shown({ content, name, editor, onSave }: ShownProps) {
  if (content === undefined) return null
  if (content.kind === 'image') return <img class="picture" src={content.url} alt={name} />
  if (content.kind === 'csv') return <CsvTable text={content.text} />
  if (content.kind === 'other') return <p class="empty">{content.why}</p>
  return (
    <CodeEditor
      key={content.text}
      ref={editor}
      value={content.text}
      language={languageOf(name)}
      label={`Contents of ${name}`}
      onSave={onSave}
    />
  )
}

async function readContent(sandbox: Sandbox, file: FileStat, isAwake: boolean): Promise<Content> {
  const ending = file.name.split('.').at(-1)?.toLowerCase() ?? ''
  if (file.type !== 'file') return { kind: 'other', why: `This is a ${file.type}.` }
  if (file.sizeBytes > SHOWN_MAX_BYTES)
    return { kind: 'other', why: `${bytes(file.sizeBytes)} are too much to show. Download the file.` }
  const content = await sandbox.files.readBytes(file.path, { wake: isAwake })
  const imageType = IMAGE_TYPES[ending]
  if (imageType !== undefined)
    return { kind: 'image', url: URL.createObjectURL(new Blob([content as BlobPart], { type: imageType })) }
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(content)
    return { kind: ending === 'csv' || ending === 'tsv' ? 'csv' : 'text', text }
  } catch {
    return { kind: 'other', why: 'This is not text. Download the file.' }
  }
}

function languageOf(name: string): string {
  if (name.endsWith('.py')) return 'python'
  if (/\.[mc]?ts$/.test(name)) return 'typescript'
  return /\.[mc]?js$/.test(name) ? 'javascript' : 'text'
}
