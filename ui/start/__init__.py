"""The page Start: four chats and a document."""
