/** Downloads bytes that the page has. The type keeps a browser from showing them as a page of this origin. */
export function saveAs(name: string, content: Uint8Array): void {
  const url = URL.createObjectURL(new Blob([content as BlobPart], { type: 'application/octet-stream' }))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}
