import type { FileStat } from 'dormouse'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { Glyph } from '../parts/icons.tsx'
import { wake } from '../sandbox/actions.ts'
import type { PartProps } from '../sandbox/sandbox-page.tsx'
import { mayRun } from '../state/session.ts'
import { attempt, tell } from '../state/toasts.ts'
import { bytes } from '../words.ts'
import { FileTree } from './file-tree.ts'
import { FileView } from './file-view.tsx'

/** The files of the sandbox. Those of a sleeping one are read from its snapshot, and cannot be changed there. */
export function FilesPart({ sandbox, info }: PartProps) {
  const isAwake = info.state === 'running'
  const tree = useMemo(() => new FileTree(sandbox, { isAwake }), [sandbox, isAwake])
  const [file, setFile] = useState<FileStat>()
  useEffect(() => {
    void attempt('Files', () => tree.show('.'))
  }, [tree])
  useEffect(() => () => tree.close(), [tree])
  const root = tree.root.value
  if (root === undefined) return <p class="loading">Reading files…</p>
  const upload = (files: FileList | null) => {
    for (const one of files ?? []) {
      void attempt(`Upload ${one.name}`, async () => {
        await sandbox.files.write(`${root}/${one.name}`, one)
        tell(`Uploaded ${one.name}, ${bytes(one.size)}`)
        await tree.read(root)
      })
    }
  }
  return (
    <section class="files" aria-label="Files">
      {!isAwake && <AsleepNote info={info} />}
      <DropZone onDrop={upload} isOpen={mayRun() && isAwake}>
        <div class="files-head">
          <Place root={root} onShow={(path) => void attempt('Files', () => tree.show(path))} />
          {mayRun() && isAwake && <UploadButton onChoose={upload} />}
        </div>
        <ul class="tree" aria-label="Files of the sandbox">
          <Directory tree={tree} path={root} depth={0} chosen={file?.path} onChoose={setFile} />
        </ul>
      </DropZone>
      <div class="file">
        {file === undefined ? (
          <p class="empty">
            {isAwake ? 'Choose a file, or drop files here to upload them.' : 'Choose a file.'}
          </p>
        ) : (
          <FileView
            key={file.path}
            sandbox={sandbox}
            isAwake={isAwake}
            file={file}
            isChanged={tree.changed.value.has(file.path)}
            onDeleted={() => setFile(undefined)}
          />
        )}
      </div>
    </section>
  )
}

function AsleepNote({ info }: Pick<PartProps, 'info'>) {
  return (
    <p class="asleep-note">
      <span>These are the files of its snapshot. Looking at them does not wake it.</span>
      {mayRun() && (
        <button type="button" onClick={() => void wake([info])}>
          Wake it to change them
        </button>
      )}
    </p>
  )
}

function UploadButton({ onChoose }: { onChoose: (files: FileList | null) => void }) {
  return (
    <label class="button">
      <Glyph name="up" /> Upload
      <input type="file" multiple class="hidden" onChange={(event) => onChoose(event.currentTarget.files)} />
    </label>
  )
}

/** The path of the directory; each part of it leads there. */
function Place({ root, onShow }: { root: string; onShow: (path: string) => void }) {
  const parts = root.split('/').filter((part) => part !== '')
  return (
    <nav class="path" aria-label="Directory">
      <button type="button" class="plain" onClick={() => onShow('/')}>
        /
      </button>
      {parts.map((part, index) => (
        <button
          key={part}
          type="button"
          class="plain"
          onClick={() => onShow(`/${parts.slice(0, index + 1).join('/')}`)}
        >
          {part}/
        </button>
      ))}
    </nav>
  )
}

interface DirectoryProps {
  readonly tree: FileTree
  readonly path: string
  readonly depth: number
  readonly chosen: string | undefined
  readonly onChoose: (file: FileStat) => void
}

function Directory(props: DirectoryProps) {
  const { tree, path, depth, chosen, onChoose } = props
  if (!tree.open.value.has(path)) return null
  const items = tree.directories.value.get(path) ?? []
  if (items.length === 0 && depth === 0) return <li class="none">No files yet</li>
  return (
    <>
      {items.map((item) => {
        const isDirectory = item.type === 'directory'
        const isOpen = tree.open.value.has(item.path)
        const act = () => (isDirectory ? void attempt('List', () => tree.toggle(item.path)) : onChoose(item))
        return (
          <li key={item.path} class={tree.changed.value.has(item.path) ? 'changed' : undefined}>
            <button
              type="button"
              class={item.path === chosen ? 'chosen' : undefined}
              style={{ paddingLeft: `${8 + depth * 16}px` }}
              aria-expanded={isDirectory ? isOpen : undefined}
              onClick={act}
            >
              <Glyph name={isDirectory ? 'folder' : 'file'} />
              <span class="name">{item.name}</span>
              {!isDirectory && <small>{bytes(item.sizeBytes)}</small>}
            </button>
            {isDirectory && isOpen && (
              <ul>
                <Directory {...props} path={item.path} depth={depth + 1} />
              </ul>
            )}
          </li>
        )
      })}
    </>
  )
}

interface DropZoneProps {
  readonly isOpen: boolean
  readonly onDrop: (files: FileList | null) => void
  readonly children: preact.ComponentChildren
}

function DropZone({ onDrop, isOpen, children }: DropZoneProps) {
  const [isOver, setIsOver] = useState(false)
  const drop = (event: DragEvent) => {
    event.preventDefault()
    setIsOver(false)
    if (isOpen) onDrop(event.dataTransfer?.files ?? null)
  }
  return (
    <div
      class={isOver ? 'drop over' : 'drop'}
      onDragOver={(event) => {
        event.preventDefault()
        setIsOver(isOpen)
      }}
      onDragLeave={() => setIsOver(false)}
      onDrop={drop}
    >
      {children}
    </div>
  )
}
