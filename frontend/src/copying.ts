// Buttons that copy the command beside them.

async function copy(button: HTMLElement, words: string): Promise<void> {
  const command = button.previousElementSibling;
  if (!command) return;
  try {
    await navigator.clipboard.writeText(command.textContent ?? "");
    button.textContent = "Copied";
  } catch {
    // Pages opened from a file may not have the clipboard: select the text, so that Ctrl-C takes it.
    getSelection()?.selectAllChildren(command);
    button.textContent = "Selected";
  }
  setTimeout(() => {
    button.textContent = words;
  }, 1500);
}

export function copyOnClick(within: ParentNode): void {
  for (const button of within.querySelectorAll<HTMLElement>("button.copy")) {
    const words = button.textContent ?? "";
    button.addEventListener("click", () => void copy(button, words));
  }
}
