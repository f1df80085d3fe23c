import { expect, test } from 'vitest'
import { detectProject } from './detect-project.ts'

const detect = (...paths: string[]) => {
  const { from, steps, start } = detectProject(new Set(paths), 3000)
  return { from, runs: steps.flatMap((step) => ('run' in step ? [step.run] : [])), start }
}

test.each([
  [['package.json', 'server.js'], 'node', ['npm install --omit=dev'], 'npm start'],
  [['package.json', 'package-lock.json', 'main.py'], 'node', ['npm ci --omit=dev'], 'npm start'],
  [['pyproject.toml', 'app.py'], 'python', [expect.stringContaining('pyproject.toml')], 'python3 app.py'],
  [
    ['requirements.txt', 'server.py'],
    'python',
    ['pip install --no-cache-dir -r requirements.txt'],
    'python3 server.py',
  ],
  [['requirements.txt'], 'python', ['pip install --no-cache-dir -r requirements.txt'], undefined],
  [['main.py'], 'python', [], 'python3 main.py'],
  [['index.html'], 'python', [], 'python3 -m http.server 3000'],
])('%j: builds on %s with %j and starts %s', (paths, from, runs, start) => {
  expect(detect(...paths)).toEqual({ from, runs, start })
})

test('a folder that says nothing is refused with what it could contain', () => {
  expect(() => detect('notes.txt')).toThrow(/Add a Dockerfile/)
})
